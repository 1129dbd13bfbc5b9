"""Cut secrets out of a body by byte span: what is no secret stays exactly as received (contract §7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Raw

from contracts.events import Path
from contracts.jsonpath import compact_members, joined, locate
from contracts.jsonpointer import POINTERS_MAX, pointer
from contracts.jsonscan import CLOSE, KEY, OPEN, STRING, scan, text_of

REDACTED_KEY: Final = "[redacted]"

_STRING: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_ASCII_ESCAPE: Final = re.compile(rb"\\(?:/|u00[0-7])")
_BRACE: Final = ord("{")
_ESCAPE_GROWTH: Final = 6
"""The longest escape of one UTF-16 unit: ``\\u0041``."""


def cut(raw: bytes, paths: Sequence[Path], secrets: Sequence[str] = ()) -> tuple[bytes, tuple[str, ...]]:
    """Return the body with null at each path, and (at most 100) places that were cut as JSON pointers.

    A string that equals a secret is cut wherever it stands and however it is escaped; as a member's name it
    becomes ``[redacted]``, in the pointers too. What is null already stays and is not counted.
    ``raw`` is JSON that the ladder takes.
    """
    if not paths and not secrets:
        return raw, ()
    escapes_ascii = _ASCII_ESCAPE.search(raw) is not None
    possible = [path for path in paths if _names(raw, path, escapes_ascii)]
    wanted = {secret for secret in secrets if secret and _may_hold(raw, secret, escapes_ascii)}
    if not possible and not wanted:
        return raw, ()
    if not wanted and all(len(path) == 1 for path in possible):
        members = compact_members(raw)
        if members is not None:
            return _cut_members(members, {path[0] for path in possible}, secrets, raw)
    spans = [*_path_spans(raw, possible), *_secret_spans(raw, wanted)]
    if not spans:
        return raw, ()
    pieces: list[bytes] = []
    pointers: dict[str, None] = {}
    done = 0
    for start, end, path, replacement in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start < done:
            continue
        pieces += (raw[done:start], replacement)
        if len(pointers) < POINTERS_MAX:
            pointers[_pointer(path, secrets)] = None
        done = end
    return b"".join((*pieces, raw[done:])), tuple(pointers)


def cut_members(
    members: dict[str, Raw], paths: Sequence[Path], secrets: Sequence[str] = ()
) -> tuple[bytes, tuple[str, ...]]:
    """The same as ``cut`` of what `joined` makes of the members, without reading them again."""
    raw = None
    if secrets or any(len(path) != 1 for path in paths):
        raw = joined(members)
        if any(len(path) != 1 for path in paths) or may_hold_one(raw, secrets):
            return cut(raw, paths, secrets)
    return _cut_members(members, {path[0] for path in paths}, secrets, raw)


def _cut_members(
    members: dict[str, Raw], names: set[str | int], secrets: Sequence[str], raw: bytes | None
) -> tuple[bytes, tuple[str, ...]]:
    """Cut members of a compact object: the same as by span, without looking for their places.

    ``raw``: what is joined of them, where that is known.
    """
    cut_names = [name for name, value in members.items() if name in names and bytes(value) != b"null"]
    if not cut_names:
        return joined(members) if raw is None else raw, ()
    null = dict.fromkeys(cut_names, Raw(b"null"))
    return joined(members | null), tuple(_pointer((name,), secrets) for name in cut_names)


def _path_spans(raw: bytes, paths: Sequence[Path]) -> Iterator[tuple[int, int, Path, bytes]]:
    for place in locate(raw, paths) if paths else ():
        if raw[place.start : place.end] != b"null":
            yield place.start, place.end, place.path, b"null"


def _names(raw: bytes, path: Path, escapes_ascii: bool) -> bool:
    """Say no only when the last name of the path is nowhere in the body."""
    name = next((step for step in reversed(path) if isinstance(step, str)), "")
    return _may_hold(raw, name, escapes_ascii)


def _may_hold(raw: bytes, text: str, escapes_ascii: bool) -> bool:
    """Say no only when the text cannot stand in the body, in no way of escaping it."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return True
    plain = text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
    return encoded in raw or (escapes_ascii if plain else b"\\" in raw)


def may_hold_one(raw: bytes, secrets: Sequence[str]) -> bool:
    """Say no only when none of the secrets can stand in the body, nor in any part of it."""
    escapes_ascii = _ASCII_ESCAPE.search(raw) is not None
    return any(secret and _may_hold(raw, secret, escapes_ascii) for secret in secrets)


def _secret_spans(raw: bytes, wanted: set[str]) -> Iterator[tuple[int, int, Path, bytes]]:
    if not wanted or not _holds(raw, wanted):
        return
    for path, start, end, is_key in _strings(raw):
        if text_of(raw, start, end) in wanted:
            yield start, end, path, b'"' + REDACTED_KEY.encode() + b'"' if is_key else b"null"


def _holds(raw: bytes, wanted: set[str]) -> bool:
    """Look at every string once, decoding only those that may be as long as a secret."""
    longest = max(len(secret.encode("utf-16-le", "surrogatepass")) for secret in wanted) * _ESCAPE_GROWTH
    return any(
        match.end() - match.start() <= longest + 2 and text_of(raw, match.start(), match.end()) in wanted
        for match in _STRING.finditer(raw)
    )


def _strings(raw: bytes) -> Iterator[tuple[Path, int, int, bool]]:
    """Yield every string and member name with its path."""
    path: list[str | int] = []
    for kind, start, end in scan(raw):
        if kind == CLOSE:
            path.pop()
        elif kind == KEY:
            path[-1] = text_of(raw, start, end)
            yield tuple(path), start, end, True
            continue
        elif kind == STRING:
            yield tuple(path), start, end, False
        if kind == OPEN:
            path.append("" if raw[start] == _BRACE else 0)
        elif path and isinstance(path[-1], int):
            path[-1] += 1


def _pointer(path: Path, secrets: Sequence[str]) -> str:
    return pointer(REDACTED_KEY if step in secrets else step for step in path)
