"""Bytes as JSON carries them: a Buffer, an index map, base64 or an array of small integers."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Final

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


def object_bytes(value: Mapping[str, object]) -> bytes | None:
    """Return the bytes of a Buffer (``{"type":"Buffer","data":…}``) or an index map (``{"0":1}``), else None.

    An empty object is no index map: it may be anything.
    """
    if len(value) == 2 and value.get("type") == "Buffer" and "data" in value:
        return field_bytes(value["data"])
    if value.get("0") is None:
        return None
    items = [value.get(str(index)) for index in range(len(value))]
    return _small_integers(items)


def field_bytes(value: object) -> bytes | None:
    """Return the bytes of a field that is known to hold bytes, as base64 or as an array; else None."""
    if isinstance(value, str):
        return _base64(value)
    if isinstance(value, list):
        return _small_integers(value)
    return None


def _small_integers(items: Sequence[object]) -> bytes | None:
    numbers = [item for item in items if type(item) is int and 0 <= item <= 255]
    return bytes(numbers) if len(numbers) == len(items) else None


def _base64(text: str) -> bytes | None:
    if not _BASE64.fullmatch(text):
        return b"" if not text else None
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except binascii.Error:
        return None
