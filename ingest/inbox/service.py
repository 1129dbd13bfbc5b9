"""One process of the inbox with its door: health and metrics, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from asgi.answers import send_answer
from asgi.exposition import METRICS_PATH, METRICS_TYPE
from asgi.peer import asks_from_here
from asgi.server import HttpServer
from asgi.types import AsgiApp, Receive, Scope, Send
from ingest.inbox.config import InboxConfig
from ingest.inbox.consumer import Consumer
from ingest.inbox.runner import Runner

CONNECTIONS_MAX: Final = 64


def create_app(runner: Runner) -> AsgiApp:
    """``/healthz``: the process lives. ``/readyz``: the database was there a moment ago. ``/metrics``."""

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["path"] == "/healthz":
            await send_answer(send, 200, b'{"status":"ok"}')
        elif scope["path"] == "/readyz":
            if runner.is_ready:
                await send_answer(send, 200, b'{"status":"ready"}')
            else:
                await send_answer(send, 503, b'{"status":"not ready"}')
        elif scope["path"] == METRICS_PATH and (runner.config.metrics_open or asks_from_here(scope)):
            await send_answer(send, 200, runner.metrics.page(), METRICS_TYPE.encode())
        else:
            await send_answer(send, 404, b'{"status":"not found"}')

    return app


async def serve_inbox(
    config: InboxConfig,
    consumers: Sequence[Consumer],
    *,
    host: str,
    port: int,
    stop: asyncio.Event,
    on_ready: Callable[[int], None],
) -> None:
    """Run rules until ``stop`` is set; ``on_ready`` gets the port once the door accepts.

    A task that dies ends it. The door stays open while the last batches end, so that their end can be seen.
    """
    runner = Runner(config, consumers)
    server = HttpServer(create_app(runner), host=host, port=port, limit_concurrency=CONNECTIONS_MAX)
    on_ready(await server.start())
    try:
        await runner.run(stop)
    finally:
        await server.stop(1.0)
