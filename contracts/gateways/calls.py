"""Calls and presence: what people do right now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contracts.events import OCCURRENCE, Part, Path
from contracts.gateways.facts import EMPTY, Seen, Source
from contracts.gateways.keys import id_flags, own_parts
from contracts.gateways.shape import first_word, jid, mapping, word
from contracts.jids import bare_jid, person


def read_call(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a call's step: call id and status; also from the raw node of Evolution's websocket."""
    body = mapping(element)
    packet = mapping(body.get("packet"))
    if packet:
        yield _raw_call(source, path, packet, element)
        return
    names = ("chatId", "from", "groupJid")
    status = (word(body.get("status")) or "").upper()
    chat = jid(*(body.get(name) for name in names))
    yield _call(source, path, element, word(body.get("id")), status, chat, body.get("date"))


def _raw_call(source: Source, path: Path, packet: Mapping[str, object], element: object) -> Seen:
    attributes = mapping(packet.get("attrs"))
    content = packet.get("content")
    step = mapping(content[0]) if isinstance(content, list) and content else {}
    call_id = word(mapping(step.get("attrs")).get("call-id"))
    status = first_word(step.get("tag"), attributes.get("type"), packet.get("tag")) or ""
    return _call(
        source, path, element, call_id, status.upper(), jid(attributes.get("from")), attributes.get("t")
    )


def _call(
    source: Source,
    path: Path,
    element: object,
    call_id: str | None,
    status: str,
    chat: str | None,
    time: object,
) -> Seen:
    return source.fact(
        "call",
        own_parts(call_id, "call", element, status),
        chat=chat,
        path=path,
        time=time,
        flags=id_flags(call_id),
    )


def read_presence(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield who is there and what they do; one body may tell of several people."""
    body = mapping(element)
    chat = word(body.get("id"))
    people = list(mapping(body.get("presences")).items())
    if not people:
        yield EMPTY
    for name, value in people:
        state = word(mapping(value).get("lastKnownPresence"))
        parts: tuple[Part, ...] = (None if chat is None else bare_jid(chat), person(name), state, OCCURRENCE)
        alone = len(people) == 1
        short = {"id": chat, "presences": {name: {"lastKnownPresence": state}}}
        yield source.fact(
            "presence", parts, chat=jid(chat), path=path if alone else None, payload=None if alone else short
        )
