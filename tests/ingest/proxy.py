"""A way to Postgres that a test can close and open again, as an outage would."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SOCKET_NAME = ".s.PGSQL.5432"


class Proxy:
    """Forwards bytes to the real server while it is open."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._target = urlsplit(dsn)
        self._path = folder / SOCKET_NAME
        self._server: asyncio.AbstractServer | None = None
        self._streams: set[asyncio.StreamWriter] = set()
        database = self._target.path
        self.dsn = f"postgresql://{self._target.username}@{database}?host={folder}"
        self.frozen = asyncio.Event()
        self.frozen.set()

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._forward, self._path)

    async def close(self) -> None:
        """Refuse new connections and drop those that are there."""
        if self._server is not None:
            self._server.close()
            for stream in list(self._streams):
                stream.transport.abort()
            self._server = None
            self._path.unlink(missing_ok=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hosts = parse_qs(self._target.query).get("host")
        if hosts:
            there, back = await asyncio.open_unix_connection(f"{hosts[0]}/{SOCKET_NAME}")
        else:
            there, back = await asyncio.open_connection(self._target.hostname, self._target.port or 5432)
        self._streams |= {writer, back}
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        self._streams -= {writer, back}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self.frozen.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def proxy_to(dsn: str, folder: Path) -> AsyncIterator[Proxy]:
    """An open proxy to ``dsn``; its socket lies in ``folder`` (a short path)."""
    proxy = Proxy(dsn, folder)
    await proxy.open()
    try:
        yield proxy
    finally:
        proxy.frozen.set()
        await proxy.close()
