"""The records that the shipper holds: claimed, settled and released here, also when the store is away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from outbox.clock import Clock
from outbox.record import Record
from outbox.schedule import next_attempt_at
from outbox.shipper_events import ShipperEvent, StoreFailing, StoreRecovered
from outbox.store import Claiming, Settlement, StoreError, StoreUnavailable

End = TypeVar("End", Settlement, Record)


class Leases:
    """Every record claimed here is settled or released here; what is left is given back by ``close``.

    While the store is away a claim returns nothing after a back-off, and a settle waits: the answer is
    known, and asking for it again would deliver twice.
    """

    def __init__(self, store: Claiming, clock: Clock, on_event: Callable[[ShipperEvent], None]) -> None:
        self._store = store
        self._clock = clock
        self._on_event = on_event
        self._held: dict[int, Record] = {}
        self._failures = 0

    @property
    def store_is_failing(self) -> bool:
        return self._failures > 0

    async def claim(self, *, now: datetime, limit: int, bytes_max: int) -> list[Record]:
        """Due records, by the store's rules; none when the store is away."""
        try:
            records = await self._store.claim(now=now, limit=limit, bytes_max=bytes_max)
        except StoreUnavailable as error:
            await self._failed(error)
            return []
        self._works()
        self._held.update((record.rowid, replace(record, body=b"")) for record in records)
        return records

    async def next_due(self) -> datetime | None:
        """When the next record is due; None also when the store is away."""
        try:
            return await self._store.next_due()
        except StoreUnavailable as error:
            await self._failed(error)
            return None

    def still_held(self, records: Sequence[Record]) -> list[Record]:
        """Those that may still be sent; what was lost is somebody else's now."""
        return [record for record in records if self._store.still_held(record)]

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """End these records, however long the store takes."""
        await self._part(settlements, self._store.settle)

    async def release(self, records: Sequence[Record]) -> None:
        """Give these back as they were, however long the store takes."""
        await self._part(records, self._store.release)

    async def _part(self, ends: Sequence[End], call: Callable[[Sequence[End]], Awaitable[int]]) -> None:
        while ends:
            try:
                await call(ends)
            except StoreUnavailable as error:
                await self._failed(error)
                continue
            self._works()
            for end in ends:
                self._held.pop(end.rowid, None)
            return

    async def close(self) -> None:
        """Give back what is left; a store that is away forgets the leases with the process."""
        held = list(self._held.values())
        self._held.clear()
        with contextlib.suppress(StoreError):
            await asyncio.shield(self._store.release(held))

    async def _failed(self, error: StoreUnavailable) -> None:
        if not self._failures:
            self._on_event(StoreFailing(reason=str(error)))
        self._failures += 1
        until = next_attempt_at(now=self._clock.now(), attempts=self._failures, jitter=self._clock.jitter())
        await self._clock.wait(asyncio.Event(), until)

    def _works(self) -> None:
        if self._failures:
            self._failures = 0
            self._on_event(StoreRecovered())
