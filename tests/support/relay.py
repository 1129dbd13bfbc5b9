"""A way to a server that can be cut or stalled at any moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

LOOK_BYTES = 65536


class Relay:
    """Forwards every connection in full, both ways, until it is told otherwise."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.port = 0

    def cut(self) -> None:
        """Every connection ends at once, without a word."""
        for writer in self._writers:
            writer.transport.abort()

    def stall(self) -> None:
        """Nothing is forwarded any more, and nobody is told."""
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers |= {writer, back}
        try:
            await asyncio.wait(
                [
                    asyncio.ensure_future(self._forward(reader, back)),
                    asyncio.ensure_future(self._forward(there, writer)),
                ]
            )
        finally:
            self._writers -= {writer, back}

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while said := await reader.read(LOOK_BYTES):
                await self._open.wait()
                writer.write(said)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def relay_to(port: int) -> AsyncIterator[Relay]:
    """A relay to the server on ``port`` of this machine; all is cut at the end."""
    relay = Relay(port)
    server = await asyncio.start_server(relay.converse, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    async with server:
        try:
            yield relay
        finally:
            relay.resume()
            relay.cut()
