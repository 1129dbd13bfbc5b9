"""One element of a Cloud API change: a message, a reaction or a status of a message we sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contracts.digest import content_digest
from contracts.events import OCCURRENCE, Event, Part, Path
from contracts.gateways.facts import Source
from contracts.gateways.keys import (
    MessageKey,
    id_flags,
    message_parts,
    moment_part,
    own_parts,
    reaction_parts,
)
from contracts.gateways.shape import first_word, mapping, word
from contracts.status import canonical_status

_MEDIA: Final = frozenset({"audio", "document", "image", "sticker", "video"})
_ABOUT: Final = frozenset({"context", "from", "from_user_id", "id", "timestamp", "to", "type"})


def read_message(source: Source, path: Path, element: object, *, from_me: bool = False) -> Event:
    """Read one of ``messages``; ``from_me``: one of ``message_echoes``, sent with the phone's own app."""
    message = mapping(element)
    if not message:
        return source.notice("unknown", element, path=path)
    person = phone_jid(message.get("to" if from_me else "from"))
    chat = word(message.get("group_id")) or person
    author = None if from_me else first_word(person, message.get("from_user_id"))
    key = MessageKey(id=word(message.get("id")), chat=chat, from_me=from_me, author=author)
    digest = None
    stated = _stated(key, message)
    if stated is None:
        content = _content(message)
        told = {"messageTimestamp": message.get("timestamp"), "message": content}
        stated = ("message", message_parts(key, "content", told))
        digest = content_digest(content)
    return source.fact(
        *stated,
        chat=chat,
        path=path,
        time=message.get("timestamp"),
        time_from="message",
        digest=digest,
        flags=id_flags(key.id),
    )


def read_status(source: Source, path: Path, element: object) -> Event:
    """Read one of ``statuses``: how far a message got, with the first error's code."""
    status = mapping(element)
    if not status:
        return source.notice("unknown", element, path=path)
    errors = status.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else errors
    name = canonical_status(status.get("status"), "cloud")
    own = word(status.get("id"))
    return source.fact(
        "message.status",
        own_parts(own, "message.status", status, name, word(mapping(first).get("code"))),
        chat=phone_jid(status.get("recipient_id")),
        path=path,
        time=status.get("timestamp"),
        time_from="message",
        flags=id_flags(own),
    )


def phone_jid(value: object) -> str | None:
    """The address of a phone number; None where Meta names no number (people known by a user id only)."""
    digits = (word(value) or "").removeprefix("+")
    return f"{digits}@s.whatsapp.net" if digits.isascii() and digits.isdigit() else None


def _stated(key: MessageKey, message: Mapping[str, object]) -> tuple[str, tuple[Part, ...]] | None:
    """What the message states about another one: a reaction, an edit, a revoke; None for one that says it."""
    for kind in ("reaction", "edit", "revoke"):
        said = message.get(kind)
        if not isinstance(said, dict):
            continue
        if kind == "reaction":
            target = word(said.get("message_id"))
            return kind, reaction_parts(key, target, said.get("emoji"), message.get("timestamp"))
        target = word(said.get("original_message_id"))
        if kind == "revoke" and (target or key.id):
            return "message.revoke", (target or key.id,)
        if kind == "edit" and target:
            new = content_digest(_content(mapping(said.get("message")))).hex()
            moment = moment_part(message.get("timestamp"))
            return "message.edit.echo" if moment is OCCURRENCE else "message.edit", (target, new, moment)
    return None


def _content(message: Mapping[str, object]) -> dict[str, object]:
    """What the message says, in WhatsApp's own form where it is text or a file."""
    kind = word(message.get("type")) or ""
    said = mapping(message.get(kind))
    if kind == "text" and word(said.get("body")):
        return {"conversation": said["body"]}
    if kind in _MEDIA and (said.get("caption") or said.get("sha256")):
        return {f"{kind}Message": {"caption": said.get("caption"), "fileSha256": said.get("sha256")}}
    return {name: value for name, value in message.items() if name not in _ABOUT}
