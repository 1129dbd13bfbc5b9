"""A way to the backend that loses answers: the request arrives, the response does not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

LOOK_BYTES = 65536


class LosingRelay:
    """Forwards one connection at a time in full, except that the next ``to_lose`` answers are thrown away."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.to_lose = 0
        self.lost = 0
        self.url = ""

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        forward = asyncio.create_task(self._forward(reader, back))
        try:
            while answer := await there.read(LOOK_BYTES):
                if self.to_lose > 0:
                    self.to_lose -= 1
                    self.lost += 1
                    break
                writer.write(answer)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            forward.cancel()
            writer.close()
            back.close()

    async def _forward(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while request := await reader.read(LOOK_BYTES):
                back.write(request)
                await back.drain()


@contextlib.asynccontextmanager
async def losing_relay(port: int) -> AsyncIterator[LosingRelay]:
    """A relay to the server on ``port``."""
    relay = LosingRelay(port)
    server = await asyncio.start_server(relay.converse, "127.0.0.1", 0)
    relay.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield relay
