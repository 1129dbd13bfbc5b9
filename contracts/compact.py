"""JSON in one spelling for what is hashed: no spaces, UTF-8, and an escape for what has no UTF-8."""

from __future__ import annotations

import json

import msgspec

from contracts.jsontext import BigNumber


def _number_text(value: object) -> str:
    """A number too long for Python is told as it was written; a text that was cut out never is."""
    if isinstance(value, BigNumber):
        return str(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


_encode_fast = msgspec.json.Encoder(enc_hook=_number_text).encode
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_encode_sorted = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True
).encode


def compact_json(value: object) -> bytes:
    """Return the bytes of JavaScript's ``JSON.stringify``: a lone surrogate as its lower-case escape.

    For text, integers, booleans, null and what is made of them; floats have no one spelling.
    """
    try:
        return _encode_fast(value)
    except UnicodeEncodeError:
        # json would write a text that was cut out as its mark
        return _utf8(_encode(msgspec.to_builtins(value, enc_hook=_number_text)))


def sorted_json(value: object) -> bytes:
    """As ``compact_json``, the members of every object in code point order, floats as Python's repr."""
    return _utf8(_encode_sorted(value))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")  # of which only a lone surrogate has need
