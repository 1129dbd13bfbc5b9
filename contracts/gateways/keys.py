"""The key of a WhatsApp message as every version spells it, and the identity parts made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from contracts.canonical import content_hash
from contracts.events import OCCURRENCE, Part
from contracts.gateways.shape import mapping, word
from contracts.jids import bare_jid, chat_class, jid_kind, person
from contracts.times import as_seconds

SYNTHETIC_ID: Final = "synthetic_id"


class MessageKey(msgspec.Struct, frozen=True, kw_only=True):
    """What a key says: ``chat`` verbatim, ``author`` as a person (LID if any field carries one)."""

    id: str | None = None
    chat: str | None = None
    from_me: bool = False
    author: str | None = None

    @property
    def chat_part(self) -> str | None:
        """The chat as an identity part: bare; a direct chat is a person."""
        if self.chat is None:
            return None
        if jid_kind(self.chat) in ("user", "lid") and not self.from_me and self.author:
            return self.author
        return bare_jid(self.chat)

    def as_payload(self) -> dict[str, object]:
        """Return the key in short for a second fact's own payload."""
        short: dict[str, object] = {"remoteJid": self.chat, "fromMe": self.from_me, "id": self.id}
        return short | ({"participant": self.author} if self.author else {})


NO_KEY = MessageKey()


def read_key(value: object, holder: Mapping[str, object] | None = None) -> MessageKey:
    """Read a key of Baileys 6.7 and 7 and of Evolution 1.8 to 2.4; ``holder`` is the element around it."""
    key = mapping(value)
    around = mapping(holder)
    chat = word(key.get("remoteJid"))
    from_me = key.get("fromMe") in (True, "true")
    names: list[object] = [
        key.get("participant"),
        key.get("participantAlt"),
        key.get("participantLid"),
        key.get("participantPn"),
        around.get("participant"),
    ]
    if not from_me and chat_class(chat) == "direct":
        names += (key.get("remoteJid"), key.get("remoteJidAlt"), key.get("senderLid"), key.get("senderPn"))
    return MessageKey(id=word(key.get("id")), chat=chat, from_me=from_me, author=person(*names))


def message_parts(key: MessageKey, variant: str, element: Mapping[str, object]) -> tuple[Part, ...]:
    """Return the parts of kinds message and message.stub; without an id they hold what else tells it apart.

    ``variant`` is "content" or "stub:<number>".
    """
    if key.id is not None:
        return (chat_class(key.chat), key.id, key.from_me, variant)
    content = {name: element.get(name) for name in ("message", "messageStubParameters")}
    return (
        key.chat_part,
        key.from_me,
        key.author,
        moment_part(element.get("messageTimestamp")),
        variant,
        content_hash("message", content),
    )


def own_parts(own_id: str | None, kind: str, element: object, *rest: Part) -> tuple[Part, ...]:
    """Return the parts of a fact known by an id; without one its hash and occurrence stand for it."""
    if own_id is not None:
        return (own_id, *rest)
    return (None, *rest, content_hash(kind, element), OCCURRENCE)


def reaction_parts(own: MessageKey, target: str | None, emoji: object, time: object) -> tuple[Part, ...]:
    """Return the parts of a reaction: its own id; without one target, person, emoji or "", time."""
    if own.id is not None:
        return (own.id,)
    return (target, own.author, word(emoji) or "", moment_part(time))


def moment_part(time: object) -> Part:
    """Return a time of its own in seconds; without one the occurrence stands for it."""
    seconds = as_seconds(time)
    return OCCURRENCE if seconds is None else seconds


def id_flags(own_id: str | None) -> tuple[str, ...]:
    """Return the flags of a fact that an id should tell apart: without one the identity is made up."""
    return () if own_id is not None else (SYNTHETIC_ID,)
