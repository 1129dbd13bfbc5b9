"""Places of values in JSON bytes: what is off the paths is jumped over at the cost of its brackets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Raw

from contracts.events import Path
from contracts.jsonscan import BOM, NotJson, text_of

PATH_STEPS_MAX: Final = 64
COMPACT_BYTES_MAX: Final = 1024 * 1024
"""Of a larger body no second copy is made only to compare."""

_WS: Final = rb"[ \t\n\r]*+"
_QUOTED: Final = rb'"(?:[^"\\]++|\\.)*+"'
_BLANK: Final = re.compile(_WS)
_EMPTY: Final = re.compile(_WS + rb"[\]}]")
_KEY: Final = re.compile(_WS + rb"(" + _QUOTED + rb")" + _WS + rb":" + _WS, re.DOTALL)
_NEXT: Final = re.compile(_WS + rb"([,\]}])" + _WS)
_SCALAR: Final = re.compile(_QUOTED + rb"|[^\s,\]}\"\[{]++", re.DOTALL)
_TO_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|' + _QUOTED + rb")*+", re.DOTALL)
_BRACKETS: Final = re.compile(rb"([\[{]++)|([\]}]++)")
_BRACE: Final = ord("{")
_OPENING: Final = frozenset(b"[{")
_decode_object: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_encode_object: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the value of a path lies: ``raw[start:end]``; ``member`` is where its own member begins."""

    path: Path
    member: int
    start: int
    end: int


@dataclass(slots=True)
class _Node:
    wanted: bool = False
    children: dict[str | int, _Node] = field(default_factory=dict)


def locate(raw: bytes, paths: Iterable[Path]) -> list[Place]:
    """Return every place that one of the paths names, outer after inner, also each of doubled members.

    ``raw`` is JSON already (the ladder took it); raises NotJson where it is not.
    """
    root = _tree(paths)
    start = _blank(raw, len(BOM) if raw.startswith(BOM) else 0)
    found: list[Place] = []
    end = _value(raw, start, root, (), found)
    if root.wanted:
        found.append(Place(path=(), member=start, start=start, end=end))
    return found


def compact_members(raw: bytes) -> dict[str, Raw] | None:
    """Return the members of an object as they are written, when `joined` of them is ``raw`` to the byte.

    None for anything else: white space, odd escapes, doubled names, no object. Then ``locate`` tells.
    """
    if len(raw) > COMPACT_BYTES_MAX:
        return None
    try:
        members = _decode_object(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return members if joined(members) == raw else None


def joined(members: Mapping[str, Raw]) -> bytes:
    """Write members as one object without white space; values as they are."""
    return _encode_object(members)


def _tree(paths: Iterable[Path]) -> _Node:
    root = _Node()
    for path in paths:
        assert len(path) <= PATH_STEPS_MAX, "a path has a bounded number of steps"
        node = root
        for step in path:
            node = node.children.setdefault(step, _Node())
        node.wanted = True
    return root


def _value(raw: bytes, pos: int, node: _Node, path: Path, found: list[Place]) -> int:
    if not node.children or raw[pos : pos + 1] not in (b"{", b"["):
        return _skip(raw, pos)
    is_object = raw[pos] == _BRACE
    pos += 1
    empty = _EMPTY.match(raw, pos)
    if empty is not None:
        return empty.end()
    pos = _blank(raw, pos)
    index = 0
    while True:
        member = pos
        step: str | int = index
        if is_object:
            key = _KEY.match(raw, pos)
            if key is None:
                raise NotJson(pos, "no member name")
            step, pos = text_of(raw, key.start(1), key.end(1)), key.end()
        start = pos
        child = node.children.get(step)
        if child is None:
            pos = _skip(raw, pos)
        else:
            pos = _value(raw, pos, child, (*path, step), found)
            if child.wanted:
                found.append(Place(path=(*path, step), member=member, start=start, end=pos))
        follows = _NEXT.match(raw, pos)
        if follows is None:
            raise NotJson(pos, "neither comma nor closing bracket")
        if follows[1] != b",":
            return follows.end(1)
        pos = follows.end()
        index += 1


def _skip(raw: bytes, pos: int) -> int:
    if pos < len(raw) and raw[pos] in _OPENING:
        return _skip_container(raw, pos)
    scalar = _SCALAR.match(raw, pos)
    if scalar is None:
        raise NotJson(pos, "no JSON value")
    return scalar.end()


def _skip_container(raw: bytes, pos: int) -> int:
    depth = 0
    while True:
        between = _TO_BRACKET.match(raw, pos)
        run = _BRACKETS.match(raw, between.end() if between else pos)
        if run is None:
            raise NotJson(pos, "a bracket is not closed")
        if run[1]:
            depth += len(run[1])
        elif len(run[2]) >= depth:
            return run.start() + depth
        else:
            depth -= len(run[2])
        pos = run.end()


def _blank(raw: bytes, pos: int) -> int:
    match = _BLANK.match(raw, pos)
    return match.end() if match else pos
