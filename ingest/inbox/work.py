"""Which shards are queued or worked on in this process, so that none is handed out twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from ingest.inbox.batch import Batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Shards of one consumer to read up to ``horizon``; without shards, its parked events are due."""

    batches: Batches
    shards: tuple[int, ...] = ()
    horizon: int = 0


class Jobs:
    """A queue of jobs; a shard that was given out is not taken again before it is done."""

    def __init__(self, *, shards_per_job: int, workers: int) -> None:
        self._shards_per_job, self._workers = shards_per_job, workers
        self._queue: asyncio.Queue[Job] = asyncio.Queue()
        self._taken: set[tuple[str, int | None]] = set()

    def add(self, batches: Batches, shards: Iterable[int], horizon: int) -> None:
        """Queue those of ``shards`` that nobody here has, in parts that keep all workers busy."""
        name = batches.consumer.name
        new = [shard for shard in shards if (name, shard) not in self._taken]
        size = max(1, min(self._shards_per_job, -(-len(new) // self._workers)))
        for start in range(0, len(new), size):
            part = tuple(new[start : start + size])
            self._taken.update((name, shard) for shard in part)
            self._queue.put_nowait(Job(batches=batches, shards=part, horizon=horizon))

    def add_due(self, batches: Batches) -> None:
        """Queue a look at the parked events."""
        key = (batches.consumer.name, None)
        if key not in self._taken:
            self._taken.add(key)
            self._queue.put_nowait(Job(batches=batches))

    async def next(self) -> Job:
        """Waits for one."""
        return await self._queue.get()

    def done(self, job: Job, unread: Iterable[int] = ()) -> None:
        """Give the job's shards back; ``unread`` ones are queued again, behind the others."""
        name = job.batches.consumer.name
        self._taken.difference_update((name, shard) for shard in job.shards or (None,))
        self.add(job.batches, sorted(unread), job.horizon)
