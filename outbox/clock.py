"""Time and chance as things that are handed over: the system's, and one that a test moves by hand."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where the engine gets the time, its jitter and its waiting from."""

    def now(self) -> datetime:
        """Aware UTC; never goes back within one process."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1)."""
        ...

    async def wait(self, event: asyncio.Event, until: datetime | None) -> bool:
        """Return True once ``event`` is set, False once ``until`` has come. None waits for the event only."""
        ...


class SystemClock:
    """The wall clock, except that it ticks on when the wall clock is set back.

    A step back would park every waiting record until the wall clock has caught up again.
    """

    def __init__(self, wall_s: Callable[[], float] = time.time) -> None:
        """``wall_s``: seconds since 1970, by a clock that people set."""
        self._wall_s = wall_s
        self._wall_at_base_s = wall_s()
        self._base_s = time.monotonic()

    def now(self) -> datetime:
        wall_s, monotonic_s = self._wall_s(), time.monotonic()
        ticking_s = self._wall_at_base_s + (monotonic_s - self._base_s)
        if wall_s > ticking_s:
            self._wall_at_base_s, self._base_s = wall_s, monotonic_s
        return datetime.fromtimestamp(max(wall_s, ticking_s), UTC)

    def jitter(self) -> float:
        return random.random()  # noqa: S311  spreading retries is no secret

    async def wait(self, event: asyncio.Event, until: datetime | None) -> bool:
        timeout_s = None if until is None else (until - self.now()).total_seconds()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await event.wait()
        return event.is_set()


class ManualClock:
    """Stands still until ``advance``; its jitter is what it was told."""

    def __init__(self, at: datetime | None = None, jitter: float = 0.5) -> None:
        self.at = at or datetime(2026, 1, 1, tzinfo=UTC)
        self.jitter_value = jitter
        self.waiting = 0
        """Waits going on now: a test knows by it that all have come to rest."""
        self._moved = asyncio.Event()

    def now(self) -> datetime:
        return self.at

    def jitter(self) -> float:
        return self.jitter_value

    def advance(self, seconds: float) -> None:
        """Move the time; every wait that is over by then returns."""
        self.at += timedelta(seconds=seconds)
        self._moved.set()
        self._moved = asyncio.Event()

    async def wait(self, event: asyncio.Event, until: datetime | None) -> bool:
        while not event.is_set() and (until is None or self.at < until):
            waiters = {asyncio.ensure_future(event.wait()), asyncio.ensure_future(self._moved.wait())}
            self.waiting += 1
            try:
                await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.waiting -= 1
                for waiter in waiters:
                    waiter.cancel()
        return event.is_set()
