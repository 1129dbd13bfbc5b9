"""One connection for what is asked now and then, apart from the lanes that commit events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from ingest.config import IngestConfig
from ingest.lane import DATABASE_ERRORS, connect
from ingest.row import UnavailableError

_Result = TypeVar("_Result")


class CalmConnection:
    """Made when it is first needed and again after a fault; one piece of work at a time."""

    def __init__(self, config: IngestConfig, *, name: str) -> None:
        """``name`` is what Postgres shows of it."""
        self._config, self._name = config, name
        self._connection: asyncpg.Connection[Any] | None = None
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[asyncpg.Connection[Any]], Awaitable[_Result]]) -> _Result:
        """What ``work`` returns. Raises UnavailableError for every fault of the database."""
        async with self._turn:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(self._config, name=self._name)
            try:
                return await work(self._connection)
            except DATABASE_ERRORS as error:
                self.drop()
                raise UnavailableError(_reason(error)) from error
            except asyncio.CancelledError:
                self.drop()
                raise

    async def run_within(
        self, s_max: float, work: Callable[[asyncpg.Connection[Any]], Awaitable[_Result]]
    ) -> _Result:
        """The same, given up after ``s_max`` seconds, waiting for its turn included."""
        try:
            async with asyncio.timeout(s_max):
                return await self.run(work)
        except TimeoutError as error:
            raise UnavailableError("timeout") from error

    def drop(self) -> None:
        """Close it without waiting; the next work makes another."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


def _reason(error: Exception) -> str:
    if isinstance(error, asyncpg.InvalidSchemaNameError | asyncpg.UndefinedTableError):
        return "the database has no lake or an older one; run: zaplake db upgrade"
    return type(error).__name__
