"""A queue on PostgreSQL: claims by SKIP LOCKED, leases by the database's clock, settles by fencing token."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, assert_never

from outbox.clock import Clock
from outbox.postgres import dead, settling
from outbox.postgres import statements as sql
from outbox.postgres.config import RECORDS_PER_STATEMENT_MAX, OnLapse, QueueConfig
from outbox.postgres.enqueue import Connection, DueRecord, enqueue
from outbox.postgres.leasebook import LeaseBook
from outbox.postgres.pool import Connections
from outbox.postgres.states import RecordState
from outbox.record import PutOutcome, Record
from outbox.store import DeadRecord, QueueStats, Settlement, StoreError, StoreUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresStats(QueueStats):
    """Depths of one queue. ``waiting`` counts every row that is not over, the unknown ones too."""

    unknown: int
    """Of which nobody knows how the last try ended; those that are being asked about are ``claimed`` too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapsed:
    """A record whose worker let the lease run out, and what became of it."""

    id: str
    label: str
    state: RecordState
    lapses: int
    """How often that has happened to it: a record that kills its workers shows here."""


class PostgresStore:
    """``Queue`` on Postgres, for any number of processes at once.

    What is due, and when a lease ends, is decided by the database's clock alone; ``now`` of a caller only
    serves to tell how far ahead its ``due_at`` is. Every method has committed when it returns. A store that
    was away heals by itself. What a killed process held is found by ``sweep`` of any other one.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        queue: str,
        clock: Clock,
        config: QueueConfig,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.queue = queue
        self.config = config
        self._connections = connections
        self._clock = clock
        self._monotonic = monotonic
        self._book = LeaseBook()
        self._giving_back: set[asyncio.Task[None]] = set()
        self._closed = False

    def _use(self, *, transaction: bool = False) -> AbstractAsyncContextManager[Connection]:
        if self._closed:
            raise StoreUnavailable("the queue is closed")
        return self._connections.use(transaction=transaction)

    # what comes in

    async def put(self, records: Sequence[DueRecord]) -> list[PutOutcome]:
        """``enqueue`` in a transaction of its own, which up to a slice is one statement: all or none."""
        async with self._use(transaction=len(records) > RECORDS_PER_STATEMENT_MAX) as connection:
            return await enqueue(connection, self.queue, records)

    # claim, renew, settle, release

    async def claim(self, *, now: datetime, limit: int, bytes_max: int) -> list[Record]:
        return await self._unless_cancelled(
            self._claim(sql.CLAIM, self.queue, limit, bytes_max, self.config.lease)
        )

    async def claim_unknown(self, *, limit: int) -> list[Record]:
        """For a reconciler: lease up to ``limit`` records whose end nobody knows.

        It finds out, and settles: DELIVERED, DEAD, RETRY (proof that it did not happen), or ``doubt`` again.
        """
        return await self._unless_cancelled(
            self._claim(sql.CLAIM_UNKNOWN, self.queue, limit, self.config.lease)
        )

    async def _claim(self, statement: str, *values: object) -> list[Record]:
        until_s = self._monotonic() + self.config.lease_s
        async with self._use() as connection:
            rows = await connection.fetch(statement, *values)
        rows.sort(key=lambda row: row[0])
        records = [
            Record(
                rowid=row[1],
                id=row[2],
                body=row[3],
                label=row[4],
                attempts=row[5],
                created_at=row[6],
                lease=row[7],
            )
            for row in rows
        ]
        self._book.claimed(records, until_s=until_s)
        return records

    async def _unless_cancelled(self, claim: Coroutine[Any, Any, list[Record]]) -> list[Record]:
        """Give back at once what a cancelled caller will not hear of; a lease would keep it for a while."""
        claiming = asyncio.ensure_future(claim)
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            task = asyncio.create_task(self._give_back(claiming))
            self._giving_back.add(task)
            task.add_done_callback(self._giving_back.discard)
            raise

    async def _give_back(self, claiming: asyncio.Future[list[Record]]) -> None:
        with contextlib.suppress(StoreError):
            await self.release(await claiming)

    def held_for_s(self, record: Record) -> float:
        """How long the lease is still good, by this process's monotonic clock; 0 when it is not."""
        return max(0.0, self._book.left_s(record.rowid, record.lease, now_s=self._monotonic()))

    def still_held(self, record: Record) -> bool:
        """True while the longest allowed call, begun now, ends before the lease does."""
        return self.held_for_s(record) >= self.config.call_s_max

    async def renew(self) -> int:
        """Extend all leases of this process; returns how many are good again.

        One that somebody else has taken is not: ``still_held`` is False before it runs out here.
        """
        pairs = self._book.pairs()
        if not pairs:
            return 0
        until_s = self._monotonic() + self.config.lease_s
        async with self._use() as connection:
            rows = await connection.fetch(sql.RENEW, *settling.columns(pairs), self.config.lease)
        self._book.renewed((row[0] for row in rows), until_s=until_s, now_s=self._monotonic())
        return len(rows)

    async def settle(self, settlements: Sequence[Settlement]) -> int:
        """See ``Claiming``. A lease that ran out, but that nobody has taken or swept yet, still settles:
        what became known is better than a repetition."""
        return await self._end(settlements, settling.settle)

    async def doubt(self, settlements: Sequence[Settlement]) -> int:
        """Set records aside whose end nobody knows: unknown, to be asked about from ``due_at`` on.

        Status, reason and ``spent`` count, the verdict does not. Returns how many were still held.
        """
        return await self._end(settlements, settling.doubt)

    async def _end(
        self,
        settlements: Sequence[Settlement],
        call: Callable[[Connection, Sequence[Settlement]], Coroutine[Any, Any, int]],
    ) -> int:
        if not settlements:
            return 0
        async with self._use(transaction=settling.needs_transaction(settlements)) as connection:
            ended = await call(connection, settlements)
        self._book.ended((s.rowid, s.lease) for s in settlements)
        return ended

    async def release(self, records: Sequence[Record]) -> int:
        if not records:
            return 0
        pairs = sorted((record.rowid, record.lease) for record in records)
        async with self._use() as connection:
            told = await connection.execute(sql.RELEASE, *settling.columns(pairs))
        self._book.ended(pairs)
        return dead.count(told)

    # upkeep

    async def sweep(self) -> list[Lapsed]:
        """End leases that ran out, in any process, a bounded number a call; says which records that were."""
        match self.config.on_lapse:
            case OnLapse.TRY_AGAIN:
                becomes = RecordState.WAITING
            case OnLapse.ASK:
                becomes = RecordState.UNKNOWN
            case unreachable:
                assert_never(unreachable)
        async with self._use() as connection:
            rows = await connection.fetch(sql.SWEEP, self.queue, self.config.sweep_rows_max, str(becomes))
        return [Lapsed(id=row[0], label=row[1], state=RecordState(row[2]), lapses=row[3]) for row in rows]

    async def forget(self) -> int:
        """Forget old ids of what is over, a bounded number a call; returns how many."""
        age = timedelta(days=self.config.remember_days)
        async with self._use() as connection:
            return dead.count(
                await connection.execute(sql.FORGET, self.queue, age, self.config.forget_rows_max)
            )

    # looking

    async def next_due(self) -> datetime | None:
        """By the clock of this process, whatever time that shows: only the distance is the database's."""
        async with self._use() as connection:
            ahead = await connection.fetchval(sql.NEXT_DUE, self.queue)
        return None if ahead is None else self._clock.now() + ahead

    async def stats(self) -> PostgresStats:
        """Reads all that waits: for a status every few seconds, not for a loop."""
        async with self._use() as connection:
            row = await connection.fetchrow(sql.STATS, self.queue)
        assert row is not None
        return PostgresStats(**row)

    # dead letters

    async def dead_list(self, *, limit: int, after: int = 0) -> list[DeadRecord]:
        async with self._use() as connection:
            return await dead.dead_list(connection, self.queue, after=after, limit=limit)

    async def dead_show(self, record_id: str) -> list[DeadRecord]:
        async with self._use() as connection:
            return await dead.dead_show(connection, self.queue, record_id)

    async def dead_requeue(self, ids: Sequence[str] | None) -> int:
        async with self._use(transaction=True) as connection:
            return await dead.dead_requeue(connection, self.queue, ids)

    async def dead_drop(self, ids: Sequence[str] | None) -> int:
        async with self._use(transaction=True) as connection:
            return await dead.dead_drop(connection, self.queue, ids)

    async def close(self) -> None:
        """Give back what is left, which runs out by itself when the store is away; the connections stay."""
        if self._closed:
            return
        await asyncio.gather(*self._giving_back)
        with contextlib.suppress(StoreError):
            async with self._use() as connection:
                pairs = self._book.pairs()
                await connection.execute(sql.RELEASE, *settling.columns(pairs))
        self._closed = True
