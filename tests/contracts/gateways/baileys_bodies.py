"""Bodies of a Baileys bot for the tests, and one of each event of its map."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from contracts.events import Event, Reading
from contracts.gateways import baileys
from tests.contracts.gateways.collecting import Collector

CHAT: Final = "120363000000000010@g.us"
KEY: Final = {"remoteJid": CHAT, "fromMe": False, "id": "3EB0A1", "participant": "100000000000003@lid"}


def read(event: str, data: object, **more: object) -> Reading:
    """Read one body."""
    return baileys.read({"event": event, "data": data, **more}, path_instance="loja")


def only(reading: Reading) -> Event:
    """The one event of a reading."""
    (event,) = reading.events
    return event


def upsert(message: object, *, kind: object = "notify", **more: object) -> Reading:
    """Read one message element."""
    element = {"key": KEY, "messageTimestamp": 1764950400, "message": message, **more}
    return read("messages.upsert", {"messages": [element], "type": kind})


def collect(*bodies: Mapping[str, object]) -> Collector:
    """A collector that has seen these bodies."""
    collector = Collector(read=baileys.read)
    collector.feed_all(json.dumps(body).encode() for body in bodies)
    return collector


ALL_EVENTS: Final[tuple[tuple[str, object, list[str]], ...]] = (
    ("connection.update", {"connection": "open"}, ["connection"]),
    ("messaging-history.set", {"messages": [{"key": KEY, "message": {"conversation": "a"}}]}, ["message"]),
    ("messaging-history.status", {"syncType": 3, "status": "complete", "explicit": True}, ["history.marker"]),
    ("chats.upsert", [{"id": CHAT, "name": "Equipe"}], ["chat"]),
    ("chats.update", [{"id": CHAT, "unreadCount": 1}], ["chat"]),
    ("chats.delete", [CHAT, "5511900000002@s.whatsapp.net"], ["chat", "chat"]),
    ("chats.lock", {"id": CHAT, "locked": True}, ["chat"]),
    ("chats.set", {"chats": [{"id": CHAT, "name": "Equipe"}], "isLatest": True}, ["chat"]),
    ("chats.phoneNumberShare", {"lid": "1@lid", "jid": "5511900000002@s.whatsapp.net"}, ["lid_mapping"]),
    ("lid-mapping.update", {"lid": "1@lid", "pn": "5511900000002@s.whatsapp.net"}, ["lid_mapping"]),
    (
        "presence.update",
        {"id": CHAT, "presences": {"1@lid": {"lastKnownPresence": "composing"}}},
        ["presence"],
    ),
    ("contacts.upsert", [{"id": "1@lid", "notify": "Ana"}], ["contact"]),
    ("contacts.update", [{"id": "1@lid", "imgUrl": "changed"}], ["contact"]),
    ("contacts.set", {"contacts": [{"id": "1@lid", "notify": "Ana"}]}, ["contact"]),
    ("messages.upsert", {"messages": [{"key": KEY, "message": {"conversation": "a"}}]}, ["message"]),
    ("messages.update", [{"key": KEY, "update": {"status": 4}}], ["message.status"]),
    ("messages.delete", {"keys": [KEY]}, ["message.delete_local"]),
    ("messages.media-update", [{"key": KEY, "error": {"output": {"statusCode": 404}}}], ["message.flag"]),
    ("messages.reaction", [{"key": KEY, "reaction": {"key": {"id": "R1"}, "text": "x"}}], ["reaction"]),
    (
        "message-receipt.update",
        [{"key": KEY, "receipt": {"userJid": "1@lid", "readTimestamp": 1}}],
        ["message.receipt"],
    ),
    ("groups.upsert", [{"id": CHAT, "subject": "Equipe"}], ["group.metadata"]),
    ("groups.update", [{"id": CHAT, "subject": "Equipe"}], ["group.metadata"]),
    (
        "group-participants.update",
        {"id": CHAT, "participants": ["1@lid"], "action": "add"},
        ["group.participants"],
    ),
    ("group.join-request", {"id": CHAT, "participant": "1@lid", "action": "created"}, ["group.join_request"]),
    (
        "group.member-tag.update",
        {"groupId": CHAT, "participant": "1@lid", "label": "x", "messageTimestamp": 1764950400},
        ["group.member_tag"],
    ),
    ("blocklist.set", {"blocklist": ["1@lid", "2@lid"]}, ["blocklist", "blocklist"]),
    ("blocklist.update", {"blocklist": ["1@lid"], "type": "remove"}, ["blocklist"]),
    ("call", [{"id": "C1", "status": "offer"}, {"id": "C1", "status": "timeout"}], ["call", "call"]),
    ("labels.edit", {"id": "3", "name": "VIP", "deleted": False}, ["label"]),
    ("labels.association", {"type": "add", "association": {"chatId": CHAT, "labelId": "3"}}, ["label.assoc"]),
    (
        "newsletter.reaction",
        {"id": "1@newsletter", "server_id": "7", "reaction": {"code": "x", "count": 2}},
        ["reaction"],
    ),
    ("newsletter.view", {"id": "1@newsletter", "server_id": "7", "count": 9}, ["message.flag"]),
    (
        "newsletter-participants.update",
        {"id": "1@newsletter", "user": "1@lid", "new_role": "ADMIN"},
        ["group.participants"],
    ),
    ("newsletter-settings.update", {"id": "1@newsletter", "update": {"name": "x"}}, ["group.metadata"]),
    ("message-capping.update", {"status": "capped"}, ["account.notice"]),
    ("settings.update", {"setting": "unarchiveChats", "value": True}, ["settings"]),
)
