"""Baileys' arrays of messages: a live or drained upsert, and a chunk of history with chats and contacts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from contracts.events import Event, Path
from contracts.gateways.body import Fanned, Topic, objects_only, read_items
from contracts.gateways.directory import read_chat, read_contact, read_lid_mapping
from contracts.gateways.element import read_drained_element, read_element
from contracts.gateways.facts import EMPTY, Seen, Source
from contracts.gateways.groups import read_participants
from contracts.gateways.shape import mapping

_PARTS: Final[tuple[tuple[str, Topic], ...]] = (
    ("messages", read_element),
    ("chats", read_chat),
    ("contacts", read_contact),
    ("lidPnMappings", read_lid_mapping),
    ("pastParticipants", read_participants),
)
_CONTEXT_MEMBERS_MAX: Final = 20
_CONTEXT_CHARS_MAX: Final = 100


def read_upsert(source: Source, data: object) -> Fanned:
    """Read ``{messages, type, requestId?}``; what comes as "append" may be a restart's merged buffer."""
    body = mapping(data)
    read: Topic = read_drained_element if body.get("type") == "append" else read_element
    if isinstance(body.get("messages"), list | dict):
        path: Path = ("data", "messages")
        return Fanned(seen=read_items(objects_only(read), source, body["messages"], path), container=path)
    return Fanned(seen=read_items(objects_only(read), source, data, ("data",)))


def read_history(source: Source, data: object) -> Fanned:
    """Read a chunk; every element keeps the chunk's own words (progress, syncType …) as its envelope."""
    body = mapping(data)
    seen: list[Seen] = []
    for name, read in _PARTS:
        part = body.get(name)
        if isinstance(part, list) and part:
            seen += read_items(objects_only(read), source, part, ("data", name))
    if not seen:
        chunk = data in ({}, [], None) or any(isinstance(body.get(name), list) for name, _ in _PARTS)
        return Fanned(seen=[EMPTY] if chunk else [source.notice("history.marker", data, path=("data",))])
    context = _context(body)
    return Fanned(seen=[replace(fact, context=context) if isinstance(fact, Event) else fact for fact in seen])


def _context(body: Mapping[str, object]) -> dict[str, Path]:
    plain = [name for name, value in body.items() if _is_short(value)]
    return {"event": ("event",)} | {name: ("data", name) for name in plain[:_CONTEXT_MEMBERS_MAX]}


def _is_short(value: object) -> bool:
    """Context is copied to each element: only words and small numbers are."""
    if isinstance(value, str):
        return len(value) <= _CONTEXT_CHARS_MAX
    return isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 1 << 63)
