"""How the SQLite store's async methods reach its thread: one operation a call, done when it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from outbox.record import Record
from outbox.sqlite_engine import SqliteEngine
from outbox.sqlite_file import WriteFailed
from outbox.sqlite_thread import WriterThread
from outbox.store import StoreCorrupt, StoreFull, StoreUnavailable

T = TypeVar("T")


class SqliteCalls:
    """Calls into one thread. A file that is found damaged is salvaged; the call that met it did nothing."""

    def __init__(self, *, thread: WriterThread, engine: SqliteEngine) -> None:
        self._thread = thread
        self._engine = engine

    def still_held(self, record: Record) -> bool:
        """Leases of a file live as long as the process, and nobody else can take them."""
        return True

    async def _do(self, work: Callable[[SqliteEngine], T], *, bare: bool = False) -> T:
        opened = self._engine.opened
        try:
            return await (await self._thread.submit(work, bare=bare))
        except StoreCorrupt as error:
            damage = str(error)
            await (await self._thread.submit(lambda engine: engine.reopen(opened, damage), bare=True))
            raise StoreUnavailable(f"{damage}; it was salvaged") from error

    async def _freeing(self, work: Callable[[SqliteEngine], T], *, bare: bool = False) -> T:
        """What makes room must not fail for want of room: it may use the reserve.

        Also when it cannot be told whether room is what a write lacked; if not, the reserve is soon back.
        """
        try:
            return await self._do(work, bare=bare)
        except (StoreFull, WriteFailed):
            if not await self._do(SqliteEngine.use_reserve, bare=True):
                raise
        return await self._do(work, bare=bare)

    async def _leased(
        self,
        claim: Callable[[SqliteEngine], list[Record]],
        release: Callable[[SqliteEngine, Sequence[Record]], int],
    ) -> list[Record]:
        """A claim whose caller may go away: not given back, its leases would last as long as the process."""
        claimed = asyncio.ensure_future(self._do(claim))

        def give_back(done: asyncio.Future[list[Record]]) -> None:
            if done.exception() is None and done.result():
                self._thread.submit_now(lambda engine: release(engine, done.result()))

        try:
            return await asyncio.shield(claimed)
        except asyncio.CancelledError:
            claimed.add_done_callback(give_back)
            raise
