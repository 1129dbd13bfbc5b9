"""The meter of the SQLite store, as its callers have it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from outbox import sqlite_metering
from outbox.metering import Cell, Sweep
from outbox.sqlite_calls import SqliteCalls


class SqliteMetering(SqliteCalls):
    """``Metering`` on one SQLite file: what was counted, and how far, is one commit."""

    async def sweep(self, *, before: datetime, limit: int) -> Sweep:
        return await self._do(lambda engine: sqlite_metering.sweep(engine, before, limit))

    async def untold(self, *, limit: int) -> list[Cell]:
        return await self._do(lambda engine: sqlite_metering.untold(engine, limit))

    async def told(self, cells: Sequence[Cell], *, kept_max: int) -> int:
        return await self._freeing(lambda engine: sqlite_metering.told(engine, cells, kept_max))
