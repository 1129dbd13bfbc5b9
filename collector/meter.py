"""The loss meter: what each channel brought, per instance, hour and kind, and how it reaches the backend."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from collector.config import Limits
from collector.labels import parts_of
from collector.metrics import CollectorMetrics
from contracts.heartbeat import COVERAGE_MAX, Coverage
from contracts.times import rfc3339
from outbox.metering import Cell, Metering

RECORDS_PER_SWEEP: Final = 500
"""Records of one transaction, so that a put never waits long."""
SWEEPS_PER_CALL_MAX: Final = 200


class LossMeter:
    """One meter on the collector's store. A count is in the store before it is told, and told until kept."""

    def __init__(
        self, store: Metering, limits: Limits, *, metrics: CollectorMetrics, now: Callable[[], datetime]
    ) -> None:
        """``now``: the store's own clock."""
        self._store, self._metrics, self._now = store, metrics, now
        self._grace, self._cells_max = timedelta(seconds=limits.channel_grace_s), limits.channel_counts_max
        self._on_their_way: list[Cell] = []

    async def sweep(self) -> None:
        """Counts what is old enough; what this call leaves the next one takes."""
        for _ in range(SWEEPS_PER_CALL_MAX):
            sweep = await self._store.sweep(before=self._now() - self._grace, limit=RECORDS_PER_SWEEP)
            for cell in sweep.counted:
                (gateway, instance), _kind = parts_of(cell.label)
                self._metrics.cover(gateway, instance, cell.channels, cell.count)
            if sweep.looked < RECORDS_PER_SWEEP:
                return

    async def to_tell(self) -> tuple[Coverage, ...]:
        """The counts for the next heartbeat: whatever grew since it was told."""
        self._on_their_way = await self._store.untold(limit=COVERAGE_MAX)
        return tuple(map(_coverage, self._on_their_way))

    async def were_kept(self) -> None:
        """The backend has committed what ``to_tell`` gave last."""
        await self._store.told(self._on_their_way, kept_max=self._cells_max)
        self._on_their_way = []


def _coverage(cell: Cell) -> Coverage:
    (gateway, instance), kind = parts_of(cell.label)
    return Coverage(
        gateway=gateway,
        instance=instance,
        hour=rfc3339(cell.hour),
        kind=kind,
        channels=cell.channels,
        count=cell.count,
        delay_ms_max=cell.delay_ms_max,
        delays=cell.delays,
    )
