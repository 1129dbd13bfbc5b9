"""Bodies of an Evolution webhook for the tests, and one of each event that it knows."""

from __future__ import annotations

from typing import Final

from contracts.events import Event, Reading
from contracts.gateways import evolution

WHEN: Final = "2025-12-05T13:00:00.123Z"
CHAT: Final = "5511900000002@s.whatsapp.net"
KEY: Final = {"remoteJid": CHAT, "fromMe": False, "id": "3A0F"}


def read(event: str, data: object, **more: object) -> Reading:
    """Read one webhook body."""
    return evolution.read({"event": event, "instance": "loja", "data": data, "date_time": WHEN, **more})


def only(reading: Reading) -> Event:
    """The one event of a reading."""
    (event,) = reading.events
    return event


def element(message: object, **more: object) -> dict[str, object]:
    """A messages.upsert's data."""
    return {"key": KEY, "message": message, "messageTimestamp": 1764950400, "status": "DELIVERY_ACK", **more}


ALL_EVENTS: Final[tuple[tuple[str, object, str], ...]] = (
    ("qrcode.updated", {"message": "QR code limit reached", "statusCode": 500}, "gateway.notice"),
    ("messages.set", [element({"conversation": "a"})], "message"),
    ("messages.upsert", element({"conversation": "a"}), "message"),
    ("messages.edited", {"key": {"id": "T"}, "type": "REVOKE"}, "message.revoke"),
    ("messages.update", {"keyId": "T", "status": "READ"}, "message.status"),
    ("messages.delete", {"id": "T", "remoteJid": CHAT, "fromMe": True}, "message.revoke"),
    ("send.message", element({"conversation": "a"}), "message"),
    ("send.message.update", {"key": {"id": "T"}, "type": 14, "timestampMs": 1764950430000}, "message.edit"),
    ("contacts.set", [{"remoteJid": CHAT, "pushName": "Ana"}], "contact"),
    ("contacts.upsert", {"remoteJid": CHAT, "pushName": "Ana"}, "contact"),
    ("contacts.update", [{"remoteJid": CHAT, "profilePicUrl": None}], "contact"),
    ("presence.update", {"id": CHAT, "presences": {CHAT: {"lastKnownPresence": "composing"}}}, "presence"),
    ("chats.set", [{"remoteJid": CHAT, "name": "Ana"}], "chat"),
    ("chats.upsert", [{"id": "cmis0", "name": "Ana"}], "chat"),
    ("chats.update", [{"remoteJid": CHAT, "unreadMessages": 1}], "chat"),
    ("chats.delete", [CHAT], "chat"),
    ("groups.upsert", [{"id": "1@g.us", "subject": "A"}], "group.metadata"),
    ("groups.update", [{"id": "1@g.us", "subject": "A"}], "group.metadata"),
    ("group.update", {"id": "1@g.us", "subject": "A"}, "group.metadata"),
    (
        "group-participants.update",
        {"id": "1@g.us", "participants": [], "action": "add"},
        "group.participants",
    ),
    ("connection.update", {"state": "open"}, "connection"),
    ("status.instance", {"status": "closed"}, "connection"),
    ("labels.edit", {"id": "3", "name": "VIP"}, "label"),
    ("labels.association", {"type": "add", "chatId": CHAT, "labelId": "3"}, "label.assoc"),
    ("call", {"id": "C1", "status": "offer"}, "call"),
    ("typebot.start", {"remoteJid": CHAT, "typebot": "x"}, "typebot"),
    ("typebot.change-status", {"remoteJid": CHAT, "status": "closed"}, "typebot"),
    ("remove.instance", None, "instance.remove"),
    ("logout.instance", None, "instance.logout"),
    ("instance.create", {"instanceName": "loja"}, "instance.create"),
    ("instance.delete", {"instanceName": "loja"}, "instance.delete"),
    ("messaging-history.set", {"messageCount": 1, "progress": 100}, "history.marker"),
    ("application.startup", {}, "gateway.notice"),
    ("error", {"error": "Bad Request", "status": 400}, "gateway.notice"),
)
