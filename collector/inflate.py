"""Undoes Content-Encoding within a bound. A damaged stream is handed on as it came, so that it is stored."""

from __future__ import annotations

import zlib
from typing import Final

from asgi.inflate import DamagedStream, inflating

_GZIP_WBITS: Final = zlib.MAX_WBITS | 16


class UnknownEncoding(ValueError):
    """A Content-Encoding that no gateway is known to use."""


def inflated(encoding: bytes, wire: bytes, bytes_max: int) -> bytes:
    """The body behind ``identity`` or ``gzip``.

    Raises BodyTooLarge above ``bytes_max`` and UnknownEncoding; a broken or truncated stream gives ``wire``
    back: it is no JSON, and the store keeps it as it came.
    """
    name = encoding.strip().lower()
    if name in {b"", b"identity"}:
        return wire
    if name not in {b"gzip", b"x-gzip"}:
        raise UnknownEncoding(name.decode("latin-1"))
    try:
        return b"".join(inflating(wire, wbits=_GZIP_WBITS, bytes_max=bytes_max))
    except DamagedStream:
        return wire
