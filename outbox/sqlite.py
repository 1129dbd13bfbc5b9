"""The SQLite store: every call is queued to one writer thread and has committed when it returns."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from outbox import sqlite_blobs, sqlite_claims, sqlite_dead, sqlite_kept, sqlite_looks
from outbox.blobs import MarkLost, unmarked
from outbox.clock import Clock, SystemClock
from outbox.kept import KeptRecord, KeptState
from outbox.record import NewRecord, PutOutcome, PutResult, Record
from outbox.sqlite_blob_queue import SqliteBlobs
from outbox.sqlite_engine import SqliteEngine
from outbox.sqlite_file import lock_folder, translated
from outbox.sqlite_meter import SqliteMetering
from outbox.sqlite_thread import OPERATIONS_PER_COMMIT_MAX, WriterThread
from outbox.store import (
    DeadRecord,
    PruneLimits,
    Released,
    Settlement,
    Sighting,
    StoreLimits,
    StoreStats,
)

T = TypeVar("T")


async def open_sqlite(
    folder: Path,
    clock: Clock | None = None,
    limits: StoreLimits | None = None,
    *,
    mark_lost: MarkLost = unmarked,
    operations_per_commit_max: int = OPERATIONS_PER_COMMIT_MAX,
) -> SqliteStore:
    """Open the store in a folder of its own, made when missing. One operation a commit is no group commit.

    ``mark_lost`` writes into a body that one of its blobs will not come.

    Raises StoreBusy (another process has it), StoreCorrupt (no outbox file, or damaged) or
    StoreUnavailable (the folder cannot be written).
    """
    with translated():
        lock = lock_folder(folder)
    thread = WriterThread(asyncio.get_running_loop(), operations_per_commit_max)
    try:
        engine = await thread.start(
            lambda: SqliteEngine(folder, clock or SystemClock(), limits or StoreLimits(), mark_lost)
        )
    except BaseException:
        thread.ask_to_stop()
        os.close(lock)
        raise
    return SqliteStore(thread=thread, engine=engine, lock=lock)


class SqliteStore(SqliteMetering):
    """``Store`` on one SQLite file, ``synchronous=FULL``; concurrent calls share one fsync."""

    def __init__(self, *, thread: WriterThread, engine: SqliteEngine, lock: int) -> None:
        super().__init__(thread=thread, engine=engine)
        self._blobs = SqliteBlobs(thread=thread, engine=engine)
        self._lock: int | None = lock

    @property
    def epoch(self) -> str:
        return self._engine.epoch

    @property
    def blobs(self) -> SqliteBlobs:
        return self._blobs

    async def put(self, records: Sequence[NewRecord]) -> list[PutResult]:
        return await self._keeping(records, lambda engine: engine.put(records))

    async def _keeping(
        self, records: Sequence[NewRecord | KeptRecord], work: Callable[[SqliteEngine], T]
    ) -> T:
        """The files of the records are durable before the work; behind it what nobody needs is removed."""
        blobs = [blob for record in records for blob in record.blobs]
        if not blobs:
            return await self._do(work)
        files, names = self._engine.files, [*{blob.sha256 for blob in blobs}]
        files.pin(names)
        try:
            await asyncio.to_thread(files.keep, blobs)
            return await self._do(work)
        finally:
            # Behind the work itself, also when nobody waits for that any more.
            self._thread.submit_now(lambda engine: sqlite_blobs.unpin(engine, names), bare=True)

    async def claim(self, *, now: datetime, limit: int, bytes_max: int) -> list[Record]:
        return await self._leased(
            lambda engine: sqlite_claims.claim(engine, now, limit, bytes_max), sqlite_claims.release
        )

    async def settle(self, settlements: Sequence[Settlement]) -> int:
        return await self._freeing(lambda engine: sqlite_claims.settle(engine, settlements))

    async def release(self, records: Sequence[Record]) -> int:
        return await self._do(lambda engine: sqlite_claims.release(engine, records))

    async def next_due(self) -> datetime | None:
        return await self._do(sqlite_claims.next_due)

    async def stats(self) -> StoreStats:
        return await self._do(sqlite_looks.stats)

    async def sightings(self, record_id: str) -> list[Sighting]:
        return await self._do(lambda engine: sqlite_looks.sightings(engine, record_id))

    async def dead_list(self, *, limit: int, after: int = 0) -> list[DeadRecord]:
        return await self._do(lambda engine: sqlite_dead.dead_list(engine, limit, after))

    async def dead_show(self, record_id: str) -> list[DeadRecord]:
        return await self._do(lambda engine: sqlite_dead.dead_show(engine, record_id))

    async def dead_requeue(self, ids: Sequence[str] | None) -> int:
        return await self._do(lambda engine: sqlite_dead.dead_requeue(engine, ids))

    async def dead_drop(self, ids: Sequence[str] | None) -> int:
        return await self._freeing(lambda engine: sqlite_dead.dead_drop(engine, ids))

    async def kept(self, state: KeptState, *, after: int, limit: int, bytes_max: int) -> list[KeptRecord]:
        return await self._do(lambda engine: sqlite_kept.kept(engine, state, after, limit, bytes_max))

    async def restore(self, records: Sequence[KeptRecord]) -> list[PutOutcome]:
        return await self._keeping(records, lambda engine: sqlite_kept.restore(engine, records))

    async def get_meta(self, key: str) -> bytes | None:
        return await self._do(lambda engine: engine.get_meta(key))

    async def set_meta(self, key: str, value: bytes) -> None:
        await self._do(lambda engine: engine.set_meta(key, value))

    async def hold(self, key: str, record: NewRecord) -> int:
        return await self._do(lambda engine: sqlite_dead.hold(engine, key, record))

    async def release_held(
        self, *, key: str | None = None, before: datetime | None = None, limit: int = 100
    ) -> list[Released]:
        return await self._do(lambda engine: sqlite_dead.release_held(engine, key, before, limit))

    async def prune(self, limits: PruneLimits) -> int:
        return await self._freeing(lambda engine: sqlite_dead.prune(engine, limits))

    async def checkpoint(self) -> bool:
        return await self._freeing(SqliteEngine.checkpoint, bare=True)

    async def close(self) -> None:
        await self._thread.stop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
