"""The queues that are compared: the engine on Postgres, and PgQueuer as its tuning guide has it.

Both on asyncpg, as many connections, batches of one size, every table logged, ids of one kind.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgPoolDriver
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.domain.types import QueueEntrypoint, QueueManagerId
from pgqueuer.ports.repository import EntrypointExecutionParameter

from outbox.clock import SystemClock
from outbox.postgres.config import PoolConfig, QueueConfig
from outbox.postgres.enqueue import DueRecord
from outbox.postgres.pool import open_pool
from outbox.postgres.store import PostgresStore
from outbox.store import Settlement
from outbox.verdict import Verdict

NAME: Final = "bench"
LEASE: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A batch, made before the clock starts."""

    ids: list[str]
    bodies: list[bytes]
    records: list[DueRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One queue on a fresh database."""

    enqueue: Callable[[Prepared], Awaitable[object]]
    claim_and_settle: Callable[[int], Awaitable[int]]
    """Take up to so many, end them as done; returns how many. 0 when nothing is left."""
    tables: Sequence[str]
    """The first one holds a row for each record that waits."""


Open: TypeAlias = Callable[[str, int], AbstractAsyncContextManager[Contestant]]
"""By DSN and number of connections."""


@asynccontextmanager
async def engine(dsn: str, connections: int) -> AsyncIterator[Contestant]:
    """Ours. Every id is checked against all that waits or was delivered."""
    clock = SystemClock()
    async with open_pool(PoolConfig(dsn=dsn, connections_max=connections)) as pool:
        store = PostgresStore(pool, queue=NAME, clock=clock, config=QueueConfig())

        async def claim_and_settle(limit: int) -> int:
            records = await store.claim(now=clock.now(), limit=limit, bytes_max=2**40)
            now = clock.now()
            return await store.settle(
                [
                    Settlement(rowid=r.rowid, lease=r.lease, verdict=Verdict.DELIVERED, now=now)
                    for r in records
                ]
            )

        yield Contestant(
            enqueue=lambda batch: store.put(batch.records),
            claim_and_settle=claim_and_settle,
            tables=("engine.records", "engine.ids"),
        )


def pgqueuer(*, dedupe: bool) -> Open:
    """The peer; with ``dedupe`` it checks each id against what waits, as ours always does."""

    @asynccontextmanager
    async def opened(dsn: str, connections: int) -> AsyncIterator[Contestant]:
        async with asyncpg.create_pool(
            dsn, min_size=connections, max_size=connections, reset=_nothing
        ) as pool:
            queries = Queries(AsyncpgPoolDriver(pool))
            await queries.install()
            await queries.optimize_autovacuum()
            manager = QueueManagerId(uuid.uuid4())
            entrypoints = {QueueEntrypoint(NAME): EntrypointExecutionParameter(concurrency_limit=0)}

            async def enqueue(batch: Prepared) -> object:
                many = len(batch.ids)
                keys: list[str | None] | None = list(batch.ids) if dedupe else None
                return await queries.enqueue([NAME] * many, list(batch.bodies), [0] * many, None, keys)

            async def claim_and_settle(limit: int) -> int:
                jobs = await queries.dequeue(limit, entrypoints, manager, None, LEASE)
                if jobs:
                    await queries.log_jobs([(job, "successful", None) for job in jobs])
                return len(jobs)

            yield Contestant(
                enqueue=enqueue,
                claim_and_settle=claim_and_settle,
                tables=("pgqueuer", "pgqueuer_log"),
            )

    return opened


async def _nothing(_connection: object) -> None:
    """Neither leaves anything behind in a session; the driver's reset would cost both a round trip."""
