"""Runs one ASGI application inside the process's own event loop; signals stay with the caller."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import uvicorn
from uvicorn._types import ASGIApplication

from asgi.protocol import BoundedHeads
from asgi.types import AsgiApp


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, and with an event for "doors open"."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.opened = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.opened.set()


class HttpServer:
    """One listening door: bound by ``start``, drained and closed by ``stop`` (idempotent)."""

    def __init__(
        self,
        app: AsgiApp,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        backlog: int = 2048,
        keep_alive_s: int = 75,
        limit_concurrency: int | None = None,
        uds: Path | None = None,
        reuse_port: bool = False,
    ) -> None:
        """``reuse_port`` lets N processes listen on one port (the kernel spreads the connections)."""
        self._host, self._port, self._uds = host, port, uds
        self._backlog, self._reuse_port = backlog, reuse_port
        self._config = uvicorn.Config(
            cast("ASGIApplication", app),
            http=BoundedHeads,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=backlog,
            timeout_keep_alive=keep_alive_s,
            limit_concurrency=limit_concurrency,
        )
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Bind and accept; returns the port (0 for a unix socket). OSError when the address is taken."""
        assert self._task is None, "a server starts once"
        listener = self._bind()
        self._server = _Server(self._config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name="http-server")
        opened = asyncio.create_task(self._server.opened.wait())
        await asyncio.wait({self._task, opened}, return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            opened.cancel()
            await self._task
            raise RuntimeError("the HTTP server ended while it started")
        return 0 if self._uds is not None else int(listener.getsockname()[1])

    async def wait(self) -> None:
        """Returns when the server has ended; raises what ended it."""
        assert self._task is not None, "start comes first"
        await asyncio.shield(self._task)

    async def stop(self, grace_s: float = 10.0) -> None:
        """Stop accepting, let running requests end for at most ``grace_s`` seconds, then cancel them."""
        if self._task is None or self._server is None:
            return
        # uvicorn reads the value when it shuts down; it only compares it with a clock.
        self._config.timeout_graceful_shutdown = cast("int", grace_s)
        self._server.should_exit = True
        await asyncio.wait({self._task})
        if self._uds is not None:
            self._uds.unlink(missing_ok=True)
        if not self._task.cancelled():
            self._task.result()

    def _bind(self) -> socket.socket:
        if self._uds is not None:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            address: str | tuple[str, int] = str(self._uds)
        else:
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self._reuse_port:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            address = (self._host, self._port)
        try:
            listener.bind(address)
            listener.listen(self._backlog)
        except OSError:
            listener.close()
            raise
        listener.setblocking(False)
        return listener
