"""The ``data`` of Evolution 2.3.7 webhooks, as observed live. Pure: who, what and when are arguments."""

from __future__ import annotations

from typing import TypeAlias

from simulator.people import Person, World

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | bool | None"
Object: TypeAlias = dict[str, Json]


def long(value: int) -> Object:
    """A 64-bit integer as Evolution serialises it: two signed halves."""
    low, high = value & 0xFFFFFFFF, value >> 32
    return {"low": low - (1 << 32) if low >= 1 << 31 else low, "high": high, "unsigned": False}


def bytes_map(value: bytes) -> Object:
    """Bytes as Evolution 2.3.6 and later serialise them: an object of indices."""
    return {str(index): byte for index, byte in enumerate(value)}


def incoming_key(message_id: str, person: Person, group: str | None) -> Object:
    """The key of somebody's message; in a group the author is the LID, with the phone beside it."""
    if group is None:
        return {
            "remoteJid": person.phone_jid,
            "remoteJidAlt": person.phone_jid,
            "fromMe": False,
            "id": message_id,
            "participant": "",
            "addressingMode": "lid",
        }
    return {
        "remoteJid": group,
        "fromMe": False,
        "id": message_id,
        "participant": person.lid,
        "participantAlt": person.phone_jid,
        "addressingMode": "lid",
    }


def outgoing_key(message_id: str, person: Person) -> Object:
    """The key of a message that was sent through the gateway's API."""
    return {"remoteJid": person.phone_jid, "fromMe": True, "id": message_id}


def message(world: World, key: Object, name: str, status: str, kind: str, content: Json, at_s: int) -> Object:
    """``data`` of messages.upsert and send.message."""
    return {
        "key": key,
        "pushName": name,
        "status": status,
        "message": {kind: content},
        "messageType": kind,
        "messageTimestamp": at_s,
        "instanceId": world.instance_id,
        "source": "android",
    }


def image(sha256: bytes, caption: str, at_s: int) -> Object:
    """An imageMessage without its bytes."""
    return {
        "url": "https://mmg.exemplo.test/v/t62/AAAA?ccb=1",
        "mimetype": "image/jpeg",
        "caption": caption,
        "fileSha256": bytes_map(sha256),
        "fileLength": {"low": 48211, "high": 0, "unsigned": True},
        "height": 1280,
        "width": 960,
        "directPath": "/v/t62/AAAA",
        "mediaKeyTimestamp": long(at_s),
    }


def reaction(target: Object, emoji: str, at_ms: int) -> Object:
    """A reactionMessage; an empty emoji takes the reaction away."""
    kept = ("remoteJid", "fromMe", "id", "participant")
    return {
        "key": {name: target[name] for name in kept if name in target},
        "text": emoji,
        "senderTimestampMs": long(at_ms),
    }


def receipt(world: World, message_id: str, person: Person, status: str) -> Object:
    """``data`` of messages.update for a receipt; the address is the LID, unlike the message's own."""
    return {
        "keyId": message_id,
        "remoteJid": person.lid,
        "fromMe": True,
        "status": status,
        "instanceId": world.instance_id,
        "messageId": f"cm{message_id.lower()}",
    }


def edited(target: Object, text: str, at_ms: int) -> Object:
    """``data`` of messages.edited: the protocol message itself."""
    return {"key": target, "type": 14, "editedMessage": {"conversation": text}, "timestampMs": at_ms}


def edit_echo(world: World, target: Object, text: str) -> Object:
    """``data`` of the messages.update that comes with each edit, disguised as a receipt."""
    return {
        "keyId": target["id"],
        "remoteJid": target["remoteJid"],
        "fromMe": target["fromMe"],
        "status": "SERVER_ACK",
        "instanceId": world.instance_id,
        "message": {"editedMessage": {"message": {"conversation": text}}},
    }


def connection(world: World, state: str) -> Object:
    """``data`` of connection.update."""
    data: Object = {"instance": world.instance, "state": state, "statusReason": 200}
    if state == "open":
        data["wuid"] = world.owner_jid
        data["profileName"] = world.instance
    return data


def contact(world: World, person: Person) -> Object:
    """``data`` of contacts.update."""
    return {"remoteJid": person.phone_jid, "pushName": person.name, "instanceId": world.instance_id}


def presence(person: Person) -> Object:
    """``data`` of presence.update: a signal, not a fact."""
    return {"id": person.lid, "presences": {person.lid: {"lastKnownPresence": "composing"}}}
