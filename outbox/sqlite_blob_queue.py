"""The blobs of the SQLite store, as a shipper and an operator see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from outbox import sqlite_blobs
from outbox.blobs import FREED_PER_CALL_MAX, DeadBlob
from outbox.record import Record
from outbox.sqlite_calls import SqliteCalls
from outbox.sqlite_engine import SqliteEngine
from outbox.sqlite_thread import WriterThread
from outbox.store import Settlement


class SqliteBlobs(SqliteCalls):
    """``Blobs``. Freeing is repeated until nothing is left to free, also after a crash amid it."""

    def __init__(self, *, thread: WriterThread, engine: SqliteEngine) -> None:
        super().__init__(thread=thread, engine=engine)
        self._tell: Callable[[], None] = _nobody
        self._freed_when_opened = 0
        """The opening of the file in which all was freed; another (a start, a salvage) may have left some."""

    def path_of(self, sha256: str) -> Path:
        return self._engine.files.path_of(sha256)

    def when_freed(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    async def claim(self, *, now: datetime, limit: int, bytes_max: int) -> list[Record]:
        if self._freed_when_opened != self._engine.opened:
            await self._free()
        return await self._leased(lambda engine: sqlite_blobs.claim(engine, now, limit), sqlite_blobs.release)

    async def settle(self, settlements: Sequence[Settlement]) -> int:
        self._freed_when_opened = 0
        ended = await self._freeing(lambda engine: sqlite_blobs.settle(engine, settlements))
        await self._free()
        return ended

    async def release(self, records: Sequence[Record]) -> int:
        return await self._do(lambda engine: sqlite_blobs.release(engine, records))

    async def next_due(self) -> datetime | None:
        return await self._do(sqlite_blobs.next_due)

    async def dead_list(self, *, limit: int, after: int = 0) -> list[DeadBlob]:
        return await self._do(lambda engine: sqlite_blobs.dead_list(engine, limit, after))

    async def dead_requeue(self, sha256s: Sequence[str] | None) -> int:
        return await self._do(lambda engine: sqlite_blobs.dead_requeue(engine, sha256s))

    async def dead_drop(self, sha256s: Sequence[str] | None) -> int:
        await self._free()  # without a shipper nobody else does
        return await self._freeing(lambda engine: sqlite_blobs.dead_drop(engine, sha256s))

    async def _free(self) -> None:
        def some(engine: SqliteEngine) -> int:
            return sqlite_blobs.free(engine, FREED_PER_CALL_MAX)

        opened = self._engine.opened
        while freed := await self._freeing(some):
            self._tell()
            if freed < FREED_PER_CALL_MAX:
                break
        self._freed_when_opened = opened


def _nobody() -> None:
    """Before somebody wants to be told."""
