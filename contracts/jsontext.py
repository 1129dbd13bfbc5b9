"""Decode JSON by one ladder (msgspec, then the lenient scanner) and cut exact bytes out of it (contract §9).

What a gateway wrote as JSON is never refused for a lone surrogate, NaN, depth or a long number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from contracts.events import Path
from contracts.jsonpath import Place, compact_members, joined, locate
from contracts.jsonscan import BOM, CLOSE, KEY, LITERAL, NUMBER, OPEN, STRING, NotJson, scan, text_of

__all__ = ["BigNumber", "NotJson", "decode", "slice_at", "slices_at", "without"]

INT_DIGITS_MAX: Final = 640
"""Longer integers stay text: Python's own limit may be set as low as this."""

_decode_fast = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_LITERALS: Final = {
    b"true": True,
    b"false": False,
    b"null": None,
    b"NaN": math.nan,
    b"Infinity": math.inf,
    b"-Infinity": -math.inf,
}
_BRACE: Final = ord("{")


class BigNumber(str):
    """A number as it was written, that neither int nor float holds: ``1e400`` or 5,000 digits."""

    __slots__ = ()


def decode(raw: bytes) -> object:
    """Return the value that the bytes write. Raises NotJson with the place when they are no JSON.

    Lone surrogates and bad bytes stay in str as lone surrogates; NaN and Infinity are floats; the last of
    doubled members wins. The nesting is as deep as it was sent: recurse over the result only with a bound.
    """
    try:
        return _decode_fast(raw)
    except (msgspec.MsgspecError, RecursionError):
        return _decode_lenient(raw)


def slice_at(raw: bytes, path: Path) -> bytes:
    """Return the exact bytes of the value at ``path``. Raises KeyError or IndexError when it is not there."""
    return slices_at(raw, (path,))[0]


def slices_at(raw: bytes, paths: Sequence[Path], members: dict[str, Raw] | None = None) -> list[bytes]:
    """Return the exact bytes at each path, every level decoded once. Raises KeyError or IndexError.

    ``members``: the body's own, where the caller has them already.
    """
    try:
        levels: dict[Path, dict[str, Raw] | list[Raw]] = {} if members is None else {(): members}
        return [bytes(_raw_at(raw, path, levels)) for path in paths]
    except (msgspec.MsgspecError, RecursionError):
        spans = {place.path: place for place in locate(raw, paths)}
        return [_bytes_at(raw, path, spans) for path in paths]


def without(raw: bytes, path: Path) -> bytes:
    """Return the body without the member (or item) at ``path``; every other byte stays.

    A path that is not there changes nothing. Without a path nothing is left: ``{}``.
    """
    if not path:
        return b"{}"
    if len(path) == 1 and isinstance(path[0], str):
        members = compact_members(raw)
        if members is not None:
            members.pop(path[0], None)
            return joined(members)
    for place in sorted(locate(raw, (path,)), key=lambda place: place.member, reverse=True):
        raw = _remove(raw, place)
    return raw


def _decode_lenient(raw: bytes) -> object:
    root: list[object] = []
    parents: list[list[object] | dict[str, object]] = []
    here: list[object] | dict[str, object] = root
    key = ""
    for kind, start, end in scan(raw):
        if kind == KEY:
            key = text_of(raw, start, end)
            continue
        if kind == CLOSE:
            here = parents.pop()
            continue
        value: object
        if kind == STRING:
            value = text_of(raw, start, end)
        elif kind == NUMBER:
            value = _number(raw[start:end].decode("ascii"))
        elif kind == LITERAL:
            value = _LITERALS[raw[start:end]]
        else:
            value = {} if raw[start] == _BRACE else []
        if isinstance(here, dict):
            here[key] = value
        else:
            here.append(value)
        if kind == OPEN:
            parents.append(here)
            assert isinstance(value, dict | list)
            here = value
    return root[0]


def _number(text: str) -> int | float | BigNumber:
    if text.lstrip("-").isdigit():
        return int(text) if len(text) <= INT_DIGITS_MAX else BigNumber(text)
    number = float(text)
    return number if math.isfinite(number) else BigNumber(text)


def _raw_at(raw: bytes, path: Path, levels: dict[Path, dict[str, Raw] | list[Raw]]) -> bytes | Raw:
    if not path:
        return raw.removeprefix(BOM).strip(b" \t\n\r")
    parent, step = path[:-1], path[-1]
    level = levels.get(parent)
    if level is None:
        source = _raw_at(raw, parent, levels)
        level = levels[parent] = _decode_array(source) if isinstance(step, int) else _decode_object(source)
    if isinstance(level, dict) and isinstance(step, str):
        return level[step]
    if isinstance(level, list) and isinstance(step, int):
        return level[step]
    raise KeyError(path)


def _bytes_at(raw: bytes, path: Path, spans: dict[Path, Place]) -> bytes:
    place = spans.get(path)
    if place is None:
        raise KeyError(path)
    return raw[place.start : place.end]


def _remove(raw: bytes, place: Place) -> bytes:
    """Cut a member out together with the one comma that goes with it."""
    before, after = raw[: place.member].rstrip(b" \t\n\r"), raw[place.end :].lstrip(b" \t\n\r")
    if after.startswith(b","):
        return before + after[1:].lstrip(b" \t\n\r")
    return before.removesuffix(b",") + after
