"""A connection to a RabbitMQ on which nothing that a publisher wrote beside the body ends the reading.

A property that the client library cannot decode (text that is no UTF-8, a time beyond the calendar) ends its
connection, and the broker delivers the same message again, before all others, for ever. Nothing of ours needs
what is unreadable there, so it is blanked in the bytes of the frame, whose length stays as it is.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import aio_pika
import pamqp.frame
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from yarl import URL

_HEAD_BYTES: Final = 7
"""Kind, channel and length of a frame; then comes its payload, and one byte that ends it."""
_METHOD, _PROPERTIES = 1, 2
_FLAGS_AT: Final = _HEAD_BYTES + 12
"""Behind class, weight and length of the body: two bytes that say which properties follow."""
_DELIVER: Final = b"\x00\x3c\x00\x3c"
_DELIVERY_TAG_BYTES: Final = 9
"""With the byte that says whether it was delivered before."""


class TolerantConnection(aio_pika.Connection):
    """The client library's, reading by way of ``mended``."""

    def __init__(self, url: URL, **settings: Any) -> None:
        super().__init__(url, **settings)
        self.kwargs["transport_factory"] = _Mending(url)


def mended(frame: bytes) -> bytes:
    """The frame, or one as long that can be decoded: without its properties, or with ``?`` in its names."""
    if not _may_be_odd(frame):
        return frame
    try:
        pamqp.frame.unmarshal(frame)
    except Exception:  # the decoder lets out what its parts raise: of values, of numbers, of depth
        if frame[0] == _PROPERTIES:
            return frame[:_FLAGS_AT] + bytes(2) + frame[_FLAGS_AT + 2 :]
        if frame.startswith(_DELIVER, _HEAD_BYTES):
            return _with_plain_names(frame)
    return frame


def _may_be_odd(frame: bytes) -> bool:
    """False for nearly all, which are not decoded twice: Evolution writes no properties, and ASCII names."""
    if frame[0] == _PROPERTIES:
        return frame[_FLAGS_AT : _FLAGS_AT + 2] != bytes(2)
    return frame[0] == _METHOD and not frame[:-1].isascii()


def _with_plain_names(frame: bytes) -> bytes:
    """A delivery names its consumer, its exchange and its routing key."""
    plain = bytearray(frame)
    at = _HEAD_BYTES + len(_DELIVER)
    for behind in (_DELIVERY_TAG_BYTES, 0, 0):
        begin, end = at + 1, at + 1 + frame[at]
        plain[begin:end] = frame[begin:end].decode("ascii", "replace").encode("ascii", "replace")
        at = end + behind
    return bytes(plain)


class _Mending(TransportFactory):
    def __init__(self, url: URL) -> None:
        self._usual = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()

    async def create(self, url: URL, **settings: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self._usual.create(url, **settings)
        vars(reader)["readexactly"] = _Frames(reader).readexactly
        return reader, writer


class _Frames:
    """The library reads each frame's head in two parts, then all the rest of it at once."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._read, self._head = reader.readexactly, b""

    async def readexactly(self, count: int) -> bytes:
        read = await self._read(count)
        if len(self._head) < _HEAD_BYTES:
            self._head += read
            return read
        head, self._head = self._head, b""
        return mended(head + read)[_HEAD_BYTES:]
