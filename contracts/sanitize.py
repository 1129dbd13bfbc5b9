"""Make JSON that Postgres stores as jsonb and reads back equal; change as little as that needs (contract §6).

The usual body is passed on undecoded. The repair is one pass over the tokens, without recursion.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

from contracts.jsonpointer import POINTERS_MAX, pointer
from contracts.jsonscan import BOM, CLOSE, KEY, LITERAL, NUMBER, OPEN, STRING, scan, text_of

DEPTH_MAX: Final = 128
NUMERIC_DIGITS_BEFORE_POINT_MAX: Final = 131_072
NUMERIC_DIGITS_AFTER_POINT_MAX: Final = 16_383
EXPONENT_DIGITS_MAX: Final = 7
NUMBER_CHARS_SAFE: Final = 8
"""No shorter number can be too much: the shortest is ``1e131072``."""

REPLACEMENT: Final = "\ufffd"

_HALF_OR_NUL: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_ONLY_WHOLE_ESCAPES: Final = re.compile(
    rb"(?:[^\\]++|\\(?:[^u]|u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?!0000|[dD][89a-fA-F]))))*+",
    re.DOTALL,
)
_CONTROL: Final = re.compile(rb"[\x00-\x1f]")
_CLASS_OF: Final = {"0123456789+-": "0", "eE": "e", "[{": "[", "".join(map(chr, range(0x20))): "\0"}
_CLASSES: Final = bytes(
    next((ord(of) for chars, of in _CLASS_OF.items() if chr(byte) in chars), ord(" ")) for byte in range(256)
)
"""Byte to class: a few fast searches then find control characters, brackets and numbers that may be odd."""
_LONG_EXPONENT: Final = b"0e00000"
"""A digit and an exponent of five digits, or of four with a sign."""
_LONG_RUN: Final = b"0" * 1000
"""Fewer digits on each side of the point, with an exponent of at most four, are never too many."""
_ONLY_CLEAN_STRINGS: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\\x00-\x1f]++|\\.)*+")*+')
_ODD_NUMBER: Final = re.compile(
    rb"(?:\A|[\[:,\s])-?(?:[0-9.]{1000}|[0-9][0-9.]*+[eE][+-]?[0-9]{5}|NaN|Infinity)"
)
_NOT_BRACKETS: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")++', re.DOTALL)
_BRACKET_RUN: Final = re.compile(rb"[\[{]++|[\]}]++")
_NUMBER: Final = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_UNCLEAN: Final = re.compile("[\x00\ud800-\udfff]")
_WEIRD: Final = re.compile("[\x00-\x1f\ud800-\udfff]")
_BRACE: Final = ord("{")

_quote = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitized:
    """The text to store, and JSON pointers of (at most 100) places that are not as they were received."""

    json: str
    paths: tuple[str, ...] = ()


@dataclass(slots=True)
class _Container:
    is_object: bool
    step: int = 0
    """Of an array: the index of the item; of an object: the place of the member's name in the output."""
    names: list[tuple[int, str]] = field(default_factory=list)
    """Of an object: every member's place and name as it was sent."""
    unclean: bool = False
    """True when one of the names was cleaned."""


def sanitize(raw: bytes) -> Sanitized:
    """Return what Postgres stores.

    NUL goes; lone surrogates and bad bytes become U+FFFD, NaN and Infinity their names, a number jsonb
    cannot hold a string of its digits, what lies deeper than 128 levels one string of its JSON.

    Names that collide once cleaned get ``~2``, ``~3`` … in code point order of what was sent; a name that
    needed no cleaning stays. ``raw`` is JSON that the ladder takes; raises NotJson where the repair finds
    that it is not.
    """
    if not needs_repair(raw):
        return Sanitized(json=raw.decode())
    return _Repair(raw).run()


def needs_repair(raw: bytes) -> bool:
    """Say no only when the bytes are fit as they are; a yes for text that just looks odd costs time only."""
    classes = raw.translate(_CLASSES)
    if raw.startswith(BOM) or (b"\0" in classes and not _whole(_ONLY_CLEAN_STRINGS, raw)):
        return True
    if (b"NaN" in raw or b"Infinity" in raw) and _ODD_NUMBER.search(raw) is not None:
        return True
    return _is_odd(raw, classes)


def valid_needs_repair(raw: bytes) -> bool:
    """Say as ``needs_repair``, in half the time, of bytes that a strict decoder took: no NaN, no control."""
    return _is_odd(raw, raw.translate(_CLASSES))


def _is_odd(raw: bytes, classes: bytes) -> bool:
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError:
            return True
    if b"\\" in raw and _HALF_OR_NUL.search(raw) is not None and not _whole(_ONLY_WHOLE_ESCAPES, raw):
        return True
    if _may_be_odd_number(raw, classes) and _ODD_NUMBER.search(raw) is not None:
        return True
    return classes.count(b"[") > DEPTH_MAX and _too_deep(raw)


def _may_be_odd_number(raw: bytes, classes: bytes) -> bool:
    """Leave out hexadecimal ids such as ``7e12345``: a search over the whole body for each costs too much."""
    if _LONG_RUN in classes:
        return True
    at = classes.find(_LONG_EXPONENT)
    while at >= 0:
        before = raw[max(0, at - len(_LONG_RUN)) : at + 1].rstrip(b"0123456789.-+")
        if not before or before[-1] in b"[:, \t\r\n":
            return True
        at = classes.find(_LONG_EXPONENT, at + 1)
    return False


def clean_text(text: str) -> str:
    """Return the text without NUL, with U+FFFD for every lone surrogate."""
    if text.isprintable():
        return text
    return _UNCLEAN.sub(lambda match: "" if match[0] == "\0" else REPLACEMENT, text)


def _whole(pattern: re.Pattern[bytes], raw: bytes) -> bool:
    match = pattern.match(raw)
    return match is not None and match.end() == len(raw)


def _too_deep(raw: bytes) -> bool:
    depth = 0
    for run in _BRACKET_RUN.findall(_NOT_BRACKETS.sub(b"", raw)):
        if run[0] not in b"[{":
            depth -= len(run)
            continue
        depth += len(run)
        if depth > DEPTH_MAX:
            return True
    return False


def _fits_numeric(text: str) -> bool:
    """Say whether Postgres' numeric holds a JSON number without loss."""
    match = _NUMBER.fullmatch(text)
    assert match is not None, "a number token of the scanner"
    whole, fraction, exponent_text = match[1], match[2] or "", match[3] or "0"
    if len(exponent_text.lstrip("+-").lstrip("0")) > EXPONENT_DIGITS_MAX:
        return False
    exponent = int(exponent_text)
    if len(fraction) - exponent > NUMERIC_DIGITS_AFTER_POINT_MAX:
        return False
    significant = (whole + fraction).lstrip("0")
    if not significant:
        return True
    return len(significant) - len(fraction) + exponent <= NUMERIC_DIGITS_BEFORE_POINT_MAX


class _Repair:
    """One pass over the tokens: what is fine is copied byte for byte, what is not is written anew."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._out: list[str] = []
        self._open: list[_Container] = []
        self._changed: list[tuple[tuple[bool, int], ...]] = []
        self._done = len(BOM) if raw.startswith(BOM) else 0

    def run(self) -> Sanitized:
        too_deep_from: int | None = None
        below = 0
        for kind, start, end in scan(self._raw):
            if too_deep_from is not None:
                below += (kind == OPEN) - (kind == CLOSE)
                if below == 0:
                    self._write(too_deep_from, end, self._deep_text(too_deep_from, end), changed=True)
                    self._value_ended()
                    too_deep_from = None
            elif kind == OPEN and len(self._open) == DEPTH_MAX:
                too_deep_from, below = start, 1
            else:
                self._token(kind, start, end)
        self._copy(len(self._raw))
        return Sanitized(json="".join(self._out), paths=self._pointers())

    def _token(self, kind: int, start: int, end: int) -> None:
        if kind == OPEN:
            self._open.append(_Container(is_object=self._raw[start] == _BRACE))
            return
        if kind == KEY:
            self._key(start, end)
            return
        if kind == CLOSE:
            container = self._open.pop()
            if container.unclean:
                self._name_apart(container)
        elif kind == STRING:
            self._string(start, end)
        elif kind == NUMBER:
            text = self._raw[start:end].decode("ascii")
            if len(text) >= NUMBER_CHARS_SAFE and not _fits_numeric(text):
                self._write(start, end, f'"{text}"', changed=True)
        elif kind == LITERAL and self._raw[start:end].endswith((b"NaN", b"Infinity")):
            self._write(start, end, f'"{self._raw[start:end].decode("ascii")}"', changed=True)
        self._value_ended()

    def _string(self, start: int, end: int) -> None:
        text = text_of(self._raw, start, end)
        if _WEIRD.search(text) is not None:
            cleaned = clean_text(text)
            if cleaned != text or _CONTROL.search(self._raw, start, end) is not None:
                self._write(start, end, _quote(cleaned), changed=cleaned != text)

    def _key(self, start: int, end: int) -> None:
        text = text_of(self._raw, start, end)
        cleaned = clean_text(text)
        container = self._open[-1]
        container.step = len(self._out) + 1
        container.names.append((container.step, text))
        container.unclean |= cleaned != text
        self._write(start, end, _quote(cleaned), changed=cleaned != text)

    def _name_apart(self, container: _Container) -> None:
        """Give every name its own place: clean ones stay, cleaned ones step aside in code point order."""
        sent = {name for _, name in container.names}
        final = {name: name for name in sent if clean_text(name) == name}
        taken = set(final)
        next_number: dict[str, int] = {}  # all below are taken: a search from 2 each time would be quadratic
        for name in sorted(sent - final.keys()):
            free = cleaned = clean_text(name)
            number = next_number.get(cleaned, 2)
            while free in taken:
                free = f"{cleaned}~{number}"
                number += 1
            next_number[cleaned] = number
            taken.add(free)
            final[name] = free
        for place, name in container.names:
            self._out[place] = _quote(final[name])

    def _write(self, start: int, end: int, text: str, *, changed: bool) -> None:
        self._copy(start)
        self._out.append(text)
        self._done = end
        if changed and len(self._changed) < POINTERS_MAX:
            self._changed.append(tuple((container.is_object, container.step) for container in self._open))

    def _copy(self, until: int) -> None:
        self._out.append(self._raw[self._done : until].decode())
        self._done = until

    def _value_ended(self) -> None:
        if self._open and not self._open[-1].is_object:
            self._open[-1].step += 1

    def _deep_text(self, start: int, end: int) -> str:
        return _quote(clean_text(self._raw[start:end].decode("utf-8", "surrogateescape")))

    def _pointers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pointer(map(self._step, steps)) for steps in self._changed))

    def _step(self, step: tuple[bool, int]) -> str | int:
        is_object, place = step
        if not is_object:
            return place
        name: str = json.loads(self._out[place])
        return name
