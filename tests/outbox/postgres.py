"""The Postgres store for tests: a queue of one's own, by a clock that the test moves or by the real one."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from outbox.clock import Clock, ManualClock, SystemClock
from outbox.postgres.config import PoolConfig, QueueConfig
from outbox.postgres.pool import open_pool
from outbox.postgres.store import PostgresStore

TEST_CLOCK = """
CREATE OR REPLACE FUNCTION engine.now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN current_setting('test.now')::timestamptz
"""
DEFAULTS = QueueConfig()


async def use_test_clock(dsn: str) -> None:
    """Let the engine of this database go by a setting of the session instead of its server's clock."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(TEST_CLOCK)
    await connection.close()


def a_queue() -> str:
    return f"test/{uuid.uuid4().hex[:12]}"


@asynccontextmanager
async def open_queue(
    dsn: str,
    clock: Clock | None = None,
    *,
    queue: str | None = None,
    config: QueueConfig = DEFAULTS,
    connections_max: int = 4,
    transaction_pooler: bool = False,
) -> AsyncIterator[PostgresStore]:
    """A store on connections of its own. With a ManualClock the database must go by ``use_test_clock``."""

    async def tell_time(connection: Any) -> None:
        if isinstance(clock, ManualClock):
            await connection.execute(f"SET test.now = '{clock.at.isoformat()}'")

    pool = PoolConfig(dsn=dsn, connections_max=connections_max, transaction_pooler=transaction_pooler)
    async with open_pool(pool, tell_time) as connections:
        store = PostgresStore(
            connections, queue=queue or a_queue(), clock=clock or SystemClock(), config=config
        )
        yield store
        await store.close()
