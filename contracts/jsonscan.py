"""The lenient rung of the JSON ladder: tokens with their places, in one pass, without recursion.

It takes what JSON's grammar takes and also what gateways write in spite of it: NaN and Infinity, numbers of
any size, any depth, lone surrogates, control characters and invalid UTF-8 inside strings, a BOM in front.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from typing import Final

STRING: Final = 1
OPEN: Final = 2
NUMBER: Final = 3
LITERAL: Final = 4
KEY: Final = 5
CLOSE: Final = 6

BOM: Final = b"\xef\xbb\xbf"

_WS: Final = rb"[ \t\n\r]*+"
_QUOTED: Final = rb'"(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_VALUE: Final = re.compile(
    _WS + rb"(?:(" + _QUOTED + rb")"
    rb"|([\[{])"
    rb"|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+)"
    rb"|(true|false|null|NaN|-?Infinity))"
)
_KEY: Final = re.compile(_WS + rb"(" + _QUOTED + rb")" + _WS + rb":")
_NEXT: Final = re.compile(_WS + rb"([,\]}])")
_END: Final = re.compile(_WS + rb"\Z")
_unescaped: Final = json.JSONDecoder(strict=False).decode
"""Of a string in quotes: joins escaped halves, leaves lone ones, takes control characters."""
_BRACE: Final = ord("{")
_CLOSING: Final = {True: b"}", False: b"]"}


class NotJson(ValueError):
    """The bytes are no JSON beyond repair; ``position`` is the byte where that shows."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} at byte {position}")
        self.position = position
        self.reason = reason


def scan(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield every token as (kind, start, end); brackets open and close, commas and colons are left out.

    Raises NotJson at the first byte that does not belong.
    """
    inside_object: list[bool] = []
    pos = len(BOM) if raw.startswith(BOM) else 0
    while True:
        match = _VALUE.match(raw, pos)
        if match is None:
            raise NotJson(pos, "no JSON value")
        kind = match.lastindex or 0
        start, pos = match.span(kind)
        yield kind, start, pos
        if kind == OPEN:
            is_object = raw[start] == _BRACE
            inside_object.append(is_object)
            closing = _NEXT.match(raw, pos)
            if closing is None or closing[1] == b",":
                if is_object:
                    pos = yield from _key(raw, pos)
                continue
        while inside_object:
            follows = _NEXT.match(raw, pos)
            if follows is None:
                raise NotJson(pos, "neither comma nor closing bracket")
            pos = follows.end()
            if follows[1] == b",":
                if inside_object[-1]:
                    pos = yield from _key(raw, pos)
                break
            if follows[1] != _CLOSING[inside_object.pop()]:
                raise NotJson(pos - 1, "the wrong closing bracket")
            yield CLOSE, pos - 1, pos
        else:
            if _END.match(raw, pos) is None:
                raise NotJson(pos, "something after the value")
            return


def text_of(raw: bytes, start: int, end: int) -> str:
    """Decode the string token between ``start`` and ``end``, quotes included; bad bytes and halves stay lone.

    A byte that is no UTF-8 becomes a lone surrogate (``surrogateescape``), as an escaped half does.
    """
    text = raw[start:end].decode("utf-8", "surrogateescape")
    return str(_unescaped(text)) if "\\" in text else text[1:-1]


def _key(raw: bytes, pos: int) -> Generator[tuple[int, int, int], None, int]:
    match = _KEY.match(raw, pos)
    if match is None:
        raise NotJson(pos, "no member name")
    yield KEY, match.start(1), match.end(1)
    return match.end()
