"""Runs rules until asked to stop: one task looks for work, some carry out batches, one watches progress.

Any number of these processes share the consumers: who holds a cursor's row lock has the shard. Nothing here
remembers what is done; after any death the cursors say where to go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import asyncpg
import structlog

from ingest.inbox import statements
from ingest.inbox.batch import Batches, Outcome
from ingest.inbox.config import InboxConfig
from ingest.inbox.consumer import Consumer
from ingest.inbox.failing import StormError
from ingest.inbox.metrics import InboxMetrics, Lag
from ingest.inbox.work import Job, Jobs
from ingest.lane import DATABASE_ERRORS, open_connection
from ingest.reading import SHARDS
from ingest.row import UnavailableError

log: Final = structlog.get_logger("inbox")

LOOK_S_MAX: Final = 0.25
"""Without news the shards are looked at this often: another process may have died over one."""
REFRESH_S: Final = 1.0
"""How often the cursors themselves are read."""
DUE_S: Final = 1.0
"""How often parked events are looked for."""
UNREAD_MAX: Final = 10_000
"""Unread events of a shard that are counted."""
AWAY_AFTER_S: Final = 5.0
"""Without a successful look for so long, the process is not ready."""

_Work: TypeAlias = "Callable[[asyncpg.Connection[Any]], Awaitable[None]]"


class Runner:
    """The inbox of one process. ``run`` serves one event loop; a task that dies ends it."""

    def __init__(self, config: InboxConfig, consumers: Sequence[Consumer]) -> None:
        self.config = config
        self.metrics = InboxMetrics(tuple(consumer.name for consumer in consumers))
        self._batches = [Batches(consumer, config) for consumer in consumers]
        self._names = [consumer.name for consumer in consumers]
        self._jobs = Jobs(shards_per_job=config.shards_per_batch, workers=config.connections)
        self._begin = statements.begin(config)
        self._positions: dict[str, dict[int, int]] = {}
        """Where the cursors were when they were last seen; only to know where to look."""
        self._looked_at = float("-inf")
        self._is_announced = False
        self._forgotten: set[str] = set()
        self._stopping = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether work could be looked for a moment ago, and nobody has forgotten what runs here."""
        is_there = time.monotonic() - self._looked_at < AWAY_AFTER_S
        return is_there and not self._forgotten and not self._stopping.is_set()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop``; then end the batches that run, for ``drain_s_max`` seconds at most."""
        async with asyncio.TaskGroup() as tasks:

            def start(name: str, work: _Work) -> asyncio.Task[None]:
                return tasks.create_task(self._connected(f"zaplake-inbox-{name}", work), name=name)

            others = [start("look", self._look), start("watch", self._watch)]
            workers = [start(str(number), self._work) for number in range(self.config.connections)]
            await stop.wait()
            self._stopping.set()
            for task in others:
                task.cancel()
            _, late = await asyncio.wait(workers, timeout=self.config.drain_s_max)
            for task in late:
                task.cancel()
            log.info("inbox.drained", complete=not late)

    async def _look(self, connection: asyncpg.Connection[Any]) -> None:
        """Finds what there is to do."""
        if not self._is_announced:  # once: who was forgotten meanwhile must not begin with the first event
            await connection.fetch(statements.ADD_CONSUMERS, self._names)
            await connection.fetch(statements.ADD_CURSORS, self._names, SHARDS)
            self._is_announced = True
        horizon, looked_at, due_at = -1, float("-inf"), float("-inf")
        refreshed_at = float("-inf")
        while True:
            now = time.monotonic()
            seen = await self._horizon(connection)
            if now - refreshed_at >= REFRESH_S:
                refreshed_at = now
                await self._refresh(connection)
            if seen != horizon or now - looked_at >= LOOK_S_MAX:
                horizon, looked_at = seen, now
                await self._find(connection, horizon)
            if now - due_at >= DUE_S:
                due_at = now
                await self._find_due(connection)
                await connection.fetch(statements.FREE_STUCK, self.config.idle_s_max)
            self._looked_at = time.monotonic()
            await asyncio.sleep(self.config.poll_ms / 1000)

    async def _horizon(self, connection: asyncpg.Connection[Any]) -> int:
        """Behind a pooler the session has no settings: only a transaction is surely READ COMMITTED."""
        if not self.config.transaction_pooler:
            return int(await connection.fetchval(statements.HORIZON))
        await connection.execute(self._begin)
        horizon = int(await connection.fetchval(statements.HORIZON))
        await connection.execute(statements.COMMIT)
        return horizon

    async def _refresh(self, connection: asyncpg.Connection[Any]) -> None:
        """Other processes move cursors too, and an operator moves them back."""
        for name in self._names:
            found = await connection.fetch(statements.CURSORS, name)
            self._positions[name] = {row["shard"]: row["position"] for row in found}
        known = {row["name"] for row in await connection.fetch(statements.CONSUMERS)}
        for name in set(self._names) - known - self._forgotten:
            log.error("inbox.forgotten", consumer=name, reason="its rules run here no more; restart")
        self._forgotten = set(self._names) - known

    async def _find(self, connection: asyncpg.Connection[Any], horizon: int) -> None:
        await connection.execute(self._begin)
        for batches in self._batches:
            known = self._positions[batches.consumer.name]
            found = await connection.fetch(statements.FIND_WORK, list(known), list(known.values()), horizon)
            self._jobs.add(batches, [row[0] for row in found], horizon)
        await connection.execute(statements.COMMIT)

    async def _find_due(self, connection: asyncpg.Connection[Any]) -> None:
        for batches in self._batches:
            if await connection.fetch(statements.ANY_DUE, batches.consumer.name):
                self._jobs.add_due(batches)

    async def _work(self, connection: asyncpg.Connection[Any]) -> None:
        """Carries out jobs until the process stops."""
        while (job := await self._next_job()) is not None:
            unread = frozenset[int]()
            try:
                unread = (await self._run(connection, job)).unread
            finally:
                self._jobs.done(job, unread)

    async def _next_job(self) -> Job | None:
        """None when the process stops: the batches that are not begun are left to others."""
        following = asyncio.ensure_future(self._jobs.next())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return following.result() if following.done() and not self._stopping.is_set() else None
        finally:
            following.cancel()
            stopping.cancel()

    async def _run(self, connection: asyncpg.Connection[Any], job: Job) -> Outcome:
        name, started_s = job.batches.consumer.name, time.perf_counter()
        try:
            if job.shards:
                outcome = await job.batches.run(connection, job.shards, job.horizon)
            else:
                outcome = await job.batches.run_due(connection)
        except StormError as error:
            if await job.batches.pause(connection, str(error)):
                log.warning("inbox.paused", consumer=name, reason=str(error))
            return Outcome()
        self._positions[name].update(outcome.positions)
        self.metrics.ran(name, outcome, time.perf_counter() - started_s)
        if outcome.failed:
            log.warning("inbox.parked", consumer=name, failed=outcome.failed, dead=outcome.dead)
        return outcome

    async def _watch(self, connection: asyncpg.Connection[Any]) -> None:
        """Samples the cursors for people, and reads how far behind the consumers are."""
        every_s, kept_s = self.config.watch_every_s, self.config.progress_days * 86400
        while True:
            await connection.fetch(statements.SAMPLE_PROGRESS, self._names, every_s * 0.9)
            await connection.fetch(statements.FORGET_PROGRESS, self._names, kept_s)
            for name in self._names:
                self.metrics.lags(name, await read_lag(connection, self.config, name))
            await asyncio.sleep(every_s)

    async def _connected(self, name: str, work: _Work) -> None:
        """Do ``work`` on a connection of its own, and again on a new one whenever the database fails it."""
        config = self.config
        while not self._stopping.is_set():
            try:
                connection = await open_connection(
                    config.dsn,
                    name=name,
                    connect_s_max=config.connect_s_max,
                    statement_s_max=config.statement_s_max,
                    transaction_pooler=config.transaction_pooler,
                )
                try:
                    await work(connection)
                finally:
                    connection.terminate()  # whatever is open is rolled back
            except (UnavailableError, *DATABASE_ERRORS) as error:
                log.warning("database.away", task=name, reason=reason_of(error))
                await asyncio.sleep(config.reconnect_pause_s)


async def read_lag(connection: asyncpg.Connection[Any], config: InboxConfig, consumer: str) -> Lag:
    """How far behind a consumer is."""
    await connection.execute(statements.begin(config))
    horizon = await connection.fetchval(statements.HORIZON)
    lag = await connection.fetchrow(statements.LAG, consumer, horizon, UNREAD_MAX)
    parked = await connection.fetchrow(statements.PARKED, consumer)
    await connection.execute(statements.COMMIT)
    return Lag(
        unread=lag["unread"],
        is_more=lag["is_more"],
        oldest_s=lag["oldest_s"],
        failed=parked["failed"],
        dead=parked["dead"],
    )


def reason_of(error: Exception) -> str:
    """What to say when the database does not do what is needed; never its words, which may hold content."""
    if isinstance(error, asyncpg.InvalidSchemaNameError | asyncpg.UndefinedTableError):
        return "the database has no inbox yet; run: zaplake db upgrade"
    if isinstance(error, asyncpg.InvalidTransactionStateError):
        return "transactions here are not READ COMMITTED; reset default_transaction_isolation"
    if isinstance(error, asyncpg.PostgresError):
        return f"SQLSTATE {error.sqlstate}"
    return str(error) if isinstance(error, UnavailableError) else type(error).__name__
