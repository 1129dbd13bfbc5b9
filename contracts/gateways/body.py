"""From one body to its reading: which event it is, where its elements lie, what each of them states."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec.structs import replace

from contracts.events import Event, Path, Reading, Stamp
from contracts.gateways.content import element_secrets
from contracts.gateways.facts import EMPTY, Seen, Source
from contracts.gateways.secrets import loose_secrets
from contracts.gateways.shape import items, mapping

Topic: TypeAlias = Callable[[Source, Path, object], Iterable[Seen]]
"""Reads one element (with its path in the body) into events, or reasons why there is none."""
Fan: TypeAlias = Callable[[Source, object], "Fanned"]
"""Reads the whole ``data`` of an event whose elements do not lie in one place."""

UNKNOWN: Final = "unknown"
ENVELOPE_SECRETS: Final[tuple[Path, ...]] = (
    ("apikey",),
    ("api_key",),
    ("Authorization",),
    ("authorization",),
)
_ENVELOPE: Final = frozenset(
    ("event", "gateway", "instance", "destination", "date_time", "sender", "server_url", "at", "seq")
).union(str(path[0]) for path in ENVELOPE_SECRETS)
"""Members around the elements: never part of an identity."""
_DATA: Final = ("data",)
_SEPARATORS: Final = re.compile(r"[._\-]+")
STAMP_CHARS_MAX: Final = 100
_STAMP_MAX: Final = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Fanned:
    """What a fan found: the facts and the container that the envelope leaves out."""

    seen: Sequence[Seen]
    container: Path = _DATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How one wire event is read. ``member``: the array inside ``data`` that holds the elements.

    ``plain``: an element may be something else than an object; elsewhere such a one is unknown.
    """

    type: str
    plain: bool = False
    read: Topic | None = None
    member: str | None = None
    fan: Fan | None = None


def route_table(routes: Iterable[Route]) -> Mapping[str, Route]:
    """Return the routes by event name without regard to spelling (MESSAGES_UPSERT, messages-upsert)."""
    return {plain_name(route.type): route for route in routes}


def plain_name(name: str) -> str:
    """Return an event name in the one spelling that they are looked up by."""
    return _SEPARATORS.sub(".", name[:STAMP_CHARS_MAX].strip().lower())


def read_body(
    body: Mapping[str, object], source: Source, named: str | None, routes: Mapping[str, Route]
) -> Reading:
    """Read a body that is an object and names its event; ``source.type`` is the name as sent.

    ``named`` is the instance that the body itself names.
    """
    route = routes.get(source.type) or routes.get(plain_name(source.type)) or Route(type=source.type)
    if source.type != route.type:
        source = replace(source, type=route.type)
    cuts = tuple(path for path in ENVELOPE_SECRETS if body.get(str(path[0])) is not None)
    if "data" not in body:
        element = _without_envelope(body)
        inside = (*cuts, *element_secrets(element))
        seen = [_within(item, inside) for item in _topic(route)(source, (), element)]
        return _reading(named, seen, container=(), cuts=cuts)
    data = body["data"]
    if route.fan is not None:
        fanned = route.fan(source, data)
        return _reading(named, fanned.seen, container=fanned.container, cuts=cuts)
    container: Path = _DATA
    if route.member is not None and isinstance(mapping(data).get(route.member), list):
        container = (*_DATA, route.member)
        data = mapping(data)[route.member]
    seen = read_items(_topic(route), source, data, container)
    return _reading(named, seen, container=container, cuts=cuts)


def read_items(read: Topic, source: Source, data: object, path: Path) -> list[Seen]:
    """Read each element of an array (or the one that it is); an empty array is counted."""
    if data == []:
        return [EMPTY]
    return [
        _within(seen, element_secrets(element))
        for place, element in items(data, path)
        for seen in read(source, place, element)
    ]


def unnamed(body: object, source: Source, instance: str | None) -> Reading:
    """Return the reading of what is no object or names no event: one unknown event, the whole body."""
    fields = mapping(body)
    cuts = tuple(path for path in ENVELOPE_SECRETS if fields.get(str(path[0])) is not None)
    inside = loose_secrets(body)
    event = source.notice(UNKNOWN, _without_envelope(body), path=(), cuts=(*cuts, *inside))
    return Reading(instance=instance, events=(event,), cuts=cuts)


def named_instance(body: Mapping[str, object]) -> str | None:
    """Return the native instance that the body itself names; only text is a name."""
    name = body.get("instance")
    return name if isinstance(name, str) and name else None


def stamp(at: object, seq: object) -> Stamp | None:
    """Return what a bot said when it emitted; None unless both are there and are words or numbers."""
    first, second = _stamp_part(at), _stamp_part(seq)
    return None if first is None or second is None else (first, second)


def _stamp_part(value: object) -> str | int | None:
    if isinstance(value, str):
        return value if 0 < len(value) <= STAMP_CHARS_MAX else None
    return value if isinstance(value, int) and type(value) is int and abs(value) < _STAMP_MAX else None


def _topic(route: Route) -> Topic:
    read = route.read or _unknown
    return read if route.plain else objects_only(read)


def objects_only(read: Topic) -> Topic:
    """Return the topic for objects; elements of another shape are stored as unknown."""

    def read_object(source: Source, path: Path, element: object) -> Iterable[Seen]:
        return (read if isinstance(element, dict) else _unknown)(source, path, element)

    return read_object


def _unknown(source: Source, path: Path, element: object) -> Iterator[Seen]:
    yield source.notice(UNKNOWN, element, path=path, cuts=loose_secrets(element))


def _without_envelope(body: object) -> object:
    """Return what a body without ``data`` says itself; null when that is nothing."""
    if not isinstance(body, dict):
        return body
    return {name: value for name, value in body.items() if name not in _ENVELOPE} or None


def _within(seen: Seen, cuts: tuple[Path, ...]) -> Seen:
    """Return what was seen with the secrets that its element holds besides the topic's own."""
    return replace(seen, cuts=(*seen.cuts, *cuts)) if cuts and isinstance(seen, Event) else seen


def _reading(named: str | None, seen: Sequence[Seen], *, container: Path, cuts: tuple[Path, ...]) -> Reading:
    events = [event for event in seen if isinstance(event, Event)]
    counted = (
        () if len(events) == len(seen) else Counter(item for item in seen if isinstance(item, str)).items()
    )
    return Reading(
        instance=named,
        events=tuple(events),
        counted=tuple(counted),
        data_path=container,
        cuts=cuts,
    )
