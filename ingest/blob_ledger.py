"""The rows of blobs in Postgres: what is stored, once each, and what may go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import asyncpg
import structlog

from ingest import blob_statements as sql
from ingest.blob_store import BlobStore
from ingest.config import IngestConfig
from ingest.lane import DATABASE_ERRORS, connect
from ingest.row import Committed, UnavailableError

log: Final = structlog.get_logger("ingest")

CONNECTIONS_MAX: Final = 2
"""Blobs that are stored or looked up at once in one process."""
ROWS_PER_ROUND: Final = 500
"""Rows of lake.blobs that one round of the sweep looks at."""


class BlobLedger:
    """``lake.blobs`` beside one blob store. Every method may raise UnavailableError; then ask again."""

    def __init__(self, config: IngestConfig, store: BlobStore) -> None:
        self._config, self._store = config, store
        self._free: list[asyncpg.Connection[Any]] = []
        self._turns = asyncio.Semaphore(CONNECTIONS_MAX)
        self._swept_to = ""

    async def ask(self, sha256: str) -> bool:
        """Whether it is stored; it then stays at least for the grace from now."""
        async with self._connection() as connection:
            return await connection.fetchval(sql.ASK, sha256) is not None

    async def look(self, sha256: str) -> int | None:
        """How many bytes it has when it is stored; changes nothing."""
        async with self._connection() as connection:
            size: int | None = await connection.fetchval(sql.LOOK, sha256)
            return size

    async def keep(self, sha256: str, size: int, mime: str | None, path: Path) -> Committed:
        """Store the bytes of ``path``, then its row; both are durable when it returns."""
        async with self._connection() as connection:
            async with connection.transaction():
                await connection.execute(sql.LOCK, sha256)
                if await connection.fetchval(sql.ASK, sha256) is not None:
                    return Committed.DUPLICATE
                await self._store.put(sha256, path)
                await connection.execute(sql.KEEP, sha256, size, mime)
            return Committed.STORED

    async def sweep(self) -> int:
        """Look at the next rows, and remove the blobs that no event has and none on its way can have."""
        async with self._connection() as connection:
            before = await connection.fetchval(sql.BEFORE, self._config.blob_grace_s)
            rows = await connection.fetch(sql.PAGE, self._swept_to, before, ROWS_PER_ROUND)
            removed = 0
            for sha256, is_due in rows:
                if is_due:
                    removed += await self._remove(connection, sha256, before)
            self._swept_to = rows[-1][0] if len(rows) == ROWS_PER_ROUND else ""
        if removed:
            log.info("blobs.swept", removed=removed)
        return removed

    async def _remove(self, connection: asyncpg.Connection[Any], sha256: str, before: datetime) -> bool:
        async with connection.transaction():
            if not await connection.fetchval(sql.TRY_LOCK, sha256):
                return False
            await connection.execute(sql.CONDEMN, sha256, before)
        async with connection.transaction():
            await connection.execute(sql.LOCK, sha256)
            if await connection.fetchval(sql.REMOVE, sha256) is None:
                is_there = await self._store.has(sha256)
                await connection.execute(sql.PARDON if is_there else sql.GIVE_UP, sha256)
                return False
            await self._store.remove(sha256)
        return True

    async def close(self) -> None:
        """Drop the connections."""
        while self._free:
            self._free.pop().terminate()

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection[Any]]:
        async with self._turns:
            connection = self._free.pop() if self._free else None
            if connection is None or connection.is_closed():
                connection = await connect(
                    self._config, name="zaplake-ingest-blobs", idles_in_transaction=True
                )
            try:
                yield connection
            except DATABASE_ERRORS as error:
                connection.terminate()
                raise UnavailableError(f"blobs: {type(error).__name__}") from error
            except BaseException:
                connection.terminate()
                raise
            self._free.append(connection)
