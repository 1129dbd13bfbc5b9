"""Undoes Content-Encoding within a bound. A damaged stream is handed on as it came, so that it is stored."""

from __future__ import annotations

import zlib
from typing import Final

from asgi.body import BodyTooLarge

_GZIP_WBITS = 31
MEMBERS_MAX: Final = 64
"""Each member costs a copy of what follows it; a stream of more counts as damaged."""


class UnknownEncoding(ValueError):
    """A Content-Encoding that no gateway is known to use."""


def inflated(encoding: bytes, wire: bytes, bytes_max: int) -> bytes:
    """The body behind ``identity`` or ``gzip`` (up to 64 members).

    Raises BodyTooLarge above ``bytes_max`` and UnknownEncoding; a broken or truncated stream gives ``wire``
    back: it is no JSON, and the store keeps it as it came.
    """
    name = encoding.strip().lower()
    if name in {b"", b"identity"}:
        return wire
    if name not in {b"gzip", b"x-gzip"}:
        raise UnknownEncoding(name.decode("latin-1"))
    try:
        return _gunzip(wire, bytes_max)
    except (zlib.error, EOFError):
        return wire


def _gunzip(wire: bytes, bytes_max: int) -> bytes:
    chunks: list[bytes] = []
    left = bytes_max
    rest = wire
    while rest:
        if len(chunks) == MEMBERS_MAX:
            raise EOFError
        member = zlib.decompressobj(_GZIP_WBITS)
        chunk = member.decompress(rest, left + 1)
        if len(chunk) > left:
            raise BodyTooLarge
        if not member.eof:
            raise EOFError
        chunks.append(chunk)
        left -= len(chunk)
        rest = member.unused_data
    return b"".join(chunks)
