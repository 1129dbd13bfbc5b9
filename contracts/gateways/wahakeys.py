"""WAHA's message ids: ``{fromMe}_{chat}_{id}[_{participant}]``; WhatsApp's own id is the third part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from contracts.gateways.keys import NO_KEY, MessageKey
from contracts.gateways.shape import jid, mapping, word
from contracts.jids import bare_jid, chat_class, person

_FULL_ID: Final = re.compile(r"(true|false)_([^_@]*@[^_@]*)_(.+)", re.DOTALL)


def split_id(value: object) -> MessageKey:
    """Read an id as text or as WEBJS's object; a bare id is its own third part.

    The own id may hold underscores; the participant is a last part with an ``@``.
    """
    if isinstance(value, dict):
        serialized = word(value.get("_serialized"))
        return split_id(serialized) if serialized else _from_object(value)
    text = word(value)
    if text is None:
        return NO_KEY
    match = _FULL_ID.fullmatch(text)
    if match is None:
        return MessageKey(id=text)
    own, author = match[3], None
    head, _, tail = own.rpartition("_")
    if head and "@" in tail:
        own, author = head, person(tail)
    return MessageKey(id=own, chat=bare_jid(match[2]), from_me=match[1] == "true", author=author)


def read_key(message: Mapping[str, object]) -> MessageKey:
    """Read the key of a message; what its id does not tell comes from fromMe, from, to and participant."""
    key = split_id(message.get("id"))
    from_me = key.from_me if key.chat is not None else message.get("fromMe") is True
    chat = key.chat or jid(*(message.get(name) for name in (("to", "from") if from_me else ("from", "to"))))
    names: list[object] = [key.author, message.get("participant")]
    if not from_me and chat_class(chat) == "direct":
        names += [chat, message.get("from")]
    return MessageKey(
        id=key.id,
        chat=None if chat is None else bare_jid(chat),
        from_me=from_me,
        author=person(*names),
    )


def _from_object(value: Mapping[str, object]) -> MessageKey:
    remote = value.get("remote", value.get("remoteJid"))
    chat = jid(remote, mapping(remote).get("_serialized"))
    return MessageKey(
        id=word(value.get("id")),
        chat=None if chat is None else bare_jid(chat),
        from_me=value.get("fromMe") is True,
        author=person(value.get("participant")),
    )
