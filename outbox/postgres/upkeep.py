"""Keeps the leases of one process alive, ends those that others let run out, forgets old ids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from outbox.clock import Clock
from outbox.postgres.store import Lapsed, PostgresStore
from outbox.store import StoreUnavailable

FORGET_EVERY_S: Final = 600.0
CALLS_PER_TICK_MAX: Final = 100
"""Bounded statements, one after the other, so that a tick ends."""


class Upkeep:
    """Runs beside the workers of one queue, in each of their processes; without it leases run out.

    ``on_lapsed`` hears of each record whose lease ran out. A store that is away is tried at the next tick,
    two of which may fail before a lease is lost; ``on_failure`` hears why.
    """

    def __init__(
        self,
        store: PostgresStore,
        clock: Clock,
        *,
        on_lapsed: Callable[[Lapsed], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_lapsed = on_lapsed
        self._on_failure = on_failure
        self._forget_at: datetime | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until ``stop`` is set."""
        while not stop.is_set():
            try:
                await self.tick()
            except StoreUnavailable as error:
                self._on_failure(str(error))
            until = self._clock.now() + timedelta(seconds=self._store.config.renew_every_s)
            await self._clock.wait(stop, until)

    async def tick(self) -> None:
        """Renew first: everything else can wait."""
        store = self._store
        await store.renew()
        for _ in range(CALLS_PER_TICK_MAX):
            lapsed = await store.sweep()
            for record in lapsed:
                self._on_lapsed(record)
            if len(lapsed) < store.config.sweep_rows_max:
                break
        now = self._clock.now()
        if self._forget_at is None or now >= self._forget_at:
            self._forget_at = now + timedelta(seconds=FORGET_EVERY_S)
            for _ in range(CALLS_PER_TICK_MAX):
                if not await store.forget():
                    break
