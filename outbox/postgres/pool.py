"""The connections that the queues of one process share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import asyncpg

from outbox.postgres.config import PoolConfig
from outbox.postgres.enqueue import Connection
from outbox.postgres.errors import translated

CANCEL_S: Final = 2.0
"""How much longer than the server's statement timeout a client waits before it gives a statement up."""
CLOSE_S_MAX: Final = 5.0


async def _nothing_to_reset(_connection: object) -> None:
    """The store leaves nothing behind in a session; the driver's reset would cost a round trip a call."""


class Connections:
    """What ``open_pool`` opened."""

    def __init__(self, pool: asyncpg.Pool[Any], config: PoolConfig) -> None:
        self._pool = pool
        self._config = config

    @contextlib.asynccontextmanager
    async def use(self, *, transaction: bool) -> AsyncIterator[Connection]:
        """A connection for one call; with ``transaction`` it has committed when the block ends.

        Behind a pooler even one statement needs a transaction: without it, its two halves may meet two
        servers. Raises StoreUnavailable and StoreError for what the driver raises.
        """
        with translated():
            async with self._pool.acquire(timeout=self._config.connections_s_max) as connection:
                if transaction or self._config.transaction_pooler:
                    async with connection.transaction(isolation="read_committed"):
                        yield connection
                else:
                    yield connection


@contextlib.asynccontextmanager
async def open_pool(
    config: PoolConfig, setup: Callable[[Any], Awaitable[None]] | None = None
) -> AsyncIterator[Connections]:
    """Connect one, more as they are needed; closed at the end. Raises StoreUnavailable.

    The plans of a queue must not depend on how full it was when it was last analysed: they are never to
    read whole tables. ``setup`` is called with a connection before each use.
    """
    settings = None
    if not config.transaction_pooler:
        settings = {
            "application_name": "zaplake-queue",
            "statement_timeout": str(round(config.statement_s_max * 1000)),
            "synchronous_commit": "on",
            # claims skip what others lock; a database's own default may be one that fails there instead
            "default_transaction_isolation": "read committed",
            "jit": "off",
            "enable_seqscan": "off",
        }
    with translated():
        pool = await asyncpg.create_pool(
            config.dsn,
            min_size=0,
            max_size=config.connections_max,
            timeout=config.connect_s_max,
            command_timeout=config.statement_s_max + CANCEL_S,
            statement_cache_size=0 if config.transaction_pooler else 100,
            server_settings=settings,
            setup=setup,
            reset=_nothing_to_reset,
        )
    try:
        yield Connections(pool, config)
    finally:
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(pool.close(), CLOSE_S_MAX)
        finally:
            pool.terminate()
