"""Orders of a test to its own processes while they run: a line of JSON each, answered by the same line."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from outbox.sqlite import SqliteStore
from outbox.sqlite_engine import SqliteEngine

CLOCK: Final = "clock_ahead_s"
"""Set the machine's clock so far ahead of the real one."""
ROOM: Final = "file_pages_more"
"""Let the outbox file grow by so many pages; 0 is as many as it likes."""
PAGES_MAX: Final = 2**32 - 2
"""SQLite's own limit."""

Order: TypeAlias = "Callable[[float], Awaitable[None]]"


class MovingClock:
    """The machine's clock, as far ahead as the test has set it."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self._ahead_s

    async def set(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s


def room_of(store: SqliteStore) -> Order:
    """The order that bounds the file: to SQLite that is a disk that is full."""

    def limit(engine: SqliteEngine, more: int) -> None:
        (pages,) = engine.connection.execute("PRAGMA page_count").fetchone()
        engine.connection.execute(f"PRAGMA max_page_count = {pages + more if more else PAGES_MAX}").fetchall()

    async def order(more: float) -> None:
        await store._do(lambda engine: limit(engine, int(more)), bare=True)

    return order


async def obey(orders: Mapping[str, Order]) -> None:
    """Runs until stdin ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        for name, value in msgspec.json.decode(line, type=dict[str, float]).items():
            await orders[name](value)
        sys.stdout.write(line.decode())
        sys.stdout.flush()
