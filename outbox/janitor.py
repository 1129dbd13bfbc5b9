"""Forgets what is old, in small bites, and keeps the file short; dead letters are exported before they go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from outbox.blobs import DeadBlob
from outbox.clock import Clock
from outbox.kept import KeptRecord
from outbox.store import PruneLimits, Store, StoreUnavailable

Export: TypeAlias = "Callable[[Sequence[KeptRecord]], Awaitable[None]]"
"""Takes dead letters with their blobs, whose files go after that."""
ExportBlob: TypeAlias = "Callable[[DeadBlob, Path], Awaitable[None]]"
"""Takes a dead blob and its file, which goes after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JanitorConfig:
    """How long things are remembered, and how many."""

    seen_days: float = 30.0
    seen_rows_max: int = 2_000_000
    dead_days: float = 30.0
    dead_rows_max: int = 100_000
    last_rows_max: int = 100_000
    """Guarded subjects; the one that changed longest ago is forgotten first."""
    rows_per_call_max: int = 500
    """Rows of one transaction, so that a put never waits long."""
    calls_per_tick_max: int = 200
    interval_s: float = 60.0


class Janitor:
    """Prunes one store every ``interval_s``.

    A store that is away is tried at the next tick. While the archive fails no dead letter is forgotten, but
    everything else is. ``on_failure`` hears why.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        config: JanitorConfig,
        *,
        export: Export,
        export_blob: ExportBlob,
        on_failure: Callable[[str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._config = config
        self._export, self._export_blob = export, export_blob
        self._on_failure = on_failure

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until ``stop`` is set."""
        while not stop.is_set():
            try:
                await self.tick()
            except StoreUnavailable as error:
                self._on_failure(str(error))
            until = self._clock.now() + timedelta(seconds=self._config.interval_s)
            await self._clock.wait(stop, until)

    async def tick(self) -> int:
        """Export and forget what is due now, a bounded number of rows; returns how many were forgotten."""
        now, config = self._clock.now(), self._config
        forgotten = 0
        for _ in range(config.calls_per_tick_max):
            dead_before = now - timedelta(days=config.dead_days)
            limits = PruneLimits(
                seen_before=now - timedelta(days=config.seen_days),
                seen_rows_max=config.seen_rows_max,
                dead_before=dead_before,
                dead_through=await self._export_dead(dead_before),
                dead_rows_max=config.dead_rows_max,
                last_rows_max=config.last_rows_max,
                rows_per_call_max=config.rows_per_call_max,
            )
            pruned = await self._store.prune(limits)
            forgotten += pruned
            if not pruned:
                break
        forgotten += await self._forget_blobs(now - timedelta(days=config.dead_days))
        await self._store.checkpoint()
        return forgotten

    async def _forget_blobs(self, before: datetime) -> int:
        """Archive and forget dead blobs, page by page: they stand in the order of coming, not of death."""
        forgotten = after = 0
        for _ in range(self._config.calls_per_tick_max):
            page = await self._store.blobs.dead_list(limit=self._config.rows_per_call_max, after=after)
            if not page:
                break
            after = page[-1].rowid
            for blob in page:
                if blob.died_at >= before:
                    continue
                try:
                    await self._export_blob(blob, self._store.blobs.path_of(blob.sha256))
                except OSError as error:
                    self._on_failure(f"the archive of dead blobs: {error.strerror or error}")
                    return forgotten
                forgotten += await self._store.blobs.dead_drop([blob.sha256])
        return forgotten

    async def _export_dead(self, before: datetime) -> int:
        """Archive the dead letters that may go next; returns the rowid up to which that is done."""
        excess = (await self._store.stats()).dead - self._config.dead_rows_max
        listed = await self._store.dead_list(limit=self._config.rows_per_call_max)
        going = [dead for place, dead in enumerate(listed) if place < excess or dead.died_at < before]
        through = 0
        for dead in going:
            letters = await self._store.kept("dead", after=dead.rowid - 1, limit=1, bytes_max=0)
            try:
                await self._export([letter for letter in letters if letter.rowid == dead.rowid])
            except OSError as error:
                self._on_failure(f"the archive of dead letters: {error.strerror or error}")
                break
            through = dead.rowid
        return through
