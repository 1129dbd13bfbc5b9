"""Inflates a body in bounded steps, and never beyond the limit of one body."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from asgi.body import BodyTooLarge

STEP_BYTES: Final = 256 * 1024
"""How much goes into one step, and how much comes out of it at most."""
MEMBERS_MAX: Final = 64
"""How many members (gzip allows several) one body may have: each costs a copy of what follows it."""


_GZIP_WBITS: Final = zlib.MAX_WBITS | 16


class DamagedStream(ValueError):
    """The body is broken, ends too early, or has too many members."""


class UnknownEncoding(ValueError):
    """A Content-Encoding that no gateway is known to use."""


def inflating(body: bytes, *, wbits: int, bytes_max: int) -> Iterator[bytes]:
    """The inflated bytes of all members, a step at a time; zeros behind the last member are padding.

    ``wbits`` is zlib's. Raises BodyTooLarge above ``bytes_max``, and DamagedStream.
    """
    left = bytes_max
    rest = memoryview(body)
    try:
        for _ in range(MEMBERS_MAX):
            engine = zlib.decompressobj(wbits)
            while not engine.eof:
                step = rest[:STEP_BYTES]
                chunk = engine.decompress(step, STEP_BYTES)
                unread = engine.unused_data if engine.eof else engine.unconsumed_tail
                rest = rest[len(step) - len(unread) :]
                left -= len(chunk)
                if left < 0:
                    raise BodyTooLarge
                yield chunk
                if not (engine.eof or rest or len(chunk) == STEP_BYTES):
                    raise DamagedStream("it ends too early")
            if not bytes(rest).strip(b"\0"):
                return
    except zlib.error as error:
        raise DamagedStream(str(error)) from error
    raise DamagedStream("too many members")


def inflated(encoding: bytes, wire: bytes, bytes_max: int) -> bytes:
    """The body behind ``identity`` or ``gzip``.

    Raises BodyTooLarge above ``bytes_max`` and UnknownEncoding; a broken or truncated stream gives ``wire``
    back: it is no JSON, and is kept as it came.
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
