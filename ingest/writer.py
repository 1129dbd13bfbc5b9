"""Group commit: what arrives while commits are in flight goes into the next; each waits for its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import structlog

from ingest.config import IngestConfig
from ingest.row import CommitBatch, Fate, Refusal, Row, RowRefusedError, UnavailableError

log: Final = structlog.get_logger("ingest")


class _Job:
    """Rows of one request, and where its answer is waited for."""

    __slots__ = ("answer", "rows", "size")

    def __init__(self, rows: Sequence[Row], size: int, answer: asyncio.Future[list[Fate]]) -> None:
        self.rows = rows
        self.size = size
        self.answer = answer

    def send_away(self, reason: str) -> None:
        """Nothing is known to be committed; a client that left does not hear it."""
        if not self.answer.done():
            self.answer.set_exception(UnavailableError(reason))


class Writer:
    """Commits rows in groups, one lane a ``CommitBatch``. Nothing is answered before its COMMIT returned.

    A group takes what waits, up to a number of rows and bytes; a lane lingers only because it is committing.
    """

    def __init__(self, config: IngestConfig, lanes: Sequence[CommitBatch]) -> None:
        self._rows_max = config.group_rows_max if config.group_commit else 1
        self._bytes_max = config.group_bytes_max
        self._queue_rows_max = config.queue_rows_max
        self._lanes = lanes
        self._queue: deque[_Job] = deque()
        self._queued_rows = 0
        self._in_flight: set[_Job] = set()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._drained = asyncio.Event()
        self._drained.set()
        self.open = True
        """False from the moment the process stops: every new request is sent away."""

    async def write(self, rows: Sequence[Row], size: int) -> list[Fate]:
        """Commit the rows of one request (``size`` bytes) and return the fate of each.

        Raises UnavailableError when nothing is known to be committed: queue full, stopping, database away.
        """
        if not self.open:
            raise UnavailableError("stopping")
        if self._queued_rows + len(rows) > self._queue_rows_max:
            raise UnavailableError("queue full")
        job = _Job(rows, size, asyncio.get_running_loop().create_future())
        self._queue.append(job)
        self._queued_rows += len(rows)
        while self._idle:
            lane = self._idle.popleft()
            if not lane.done():
                lane.set_result(None)
                break
        try:
            return await job.answer
        finally:
            del job  # its error's traceback leads here: in a circle, the body would wait for the collector

    @property
    def queued_rows(self) -> int:
        """Rows that wait for a lane."""
        return self._queued_rows

    async def run(self) -> None:
        """Run the lanes until cancelled, or until one of them dies; then nobody is left waiting."""
        try:
            async with asyncio.TaskGroup() as group:
                for number, commit in enumerate(self._lanes):
                    group.create_task(self._run_lane(commit), name=f"writer-{number}")
        finally:
            self.open = False
            self._send_all_away()
            self._drained.set()

    async def drain(self, s_max: float) -> bool:
        """Take no more rows and wait until the accepted ones are answered.

        False when that took too long: what is left was told 503, committed or not.
        """
        self.open = False
        try:
            async with asyncio.timeout(s_max):
                while self._queue or self._in_flight:
                    self._drained.clear()
                    await self._drained.wait()
        except TimeoutError:
            self._send_all_away()
            return False
        return True

    def _send_all_away(self) -> None:
        for job in (*self._queue, *self._in_flight):
            job.send_away("stopping")
        self._queue.clear()
        self._queued_rows = 0

    async def _run_lane(self, commit: CommitBatch) -> None:
        while True:
            while not self._queue:
                turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(turn)
                await turn
            await self._carry_out(commit, self._next_group())

    async def _carry_out(self, commit: CommitBatch, jobs: list[_Job]) -> None:
        self._in_flight.update(jobs)
        try:
            await self._commit_group(commit, jobs)
        finally:
            self._in_flight.difference_update(jobs)
            for job in jobs:
                job.send_away("stopping")
            if not self._queue and not self._in_flight:
                self._drained.set()

    def _next_group(self) -> list[_Job]:
        jobs = [self._queue.popleft()]
        rows, size = len(jobs[0].rows), jobs[0].size
        while self._queue:
            following = self._queue[0]
            rows += len(following.rows)
            size += following.size
            if rows > self._rows_max or size > self._bytes_max:
                break
            jobs.append(self._queue.popleft())
        self._queued_rows -= sum(len(job.rows) for job in jobs)
        return jobs

    async def _commit_group(self, commit: CommitBatch, jobs: Sequence[_Job]) -> None:
        rows = [row for job in jobs for row in job.rows] if len(jobs) > 1 else jobs[0].rows
        try:
            fates = await _commit_or_split(commit, rows)
        except UnavailableError as error:
            for job in jobs:
                job.send_away(str(error))
            return
        start = 0
        for job in jobs:
            end = start + len(job.rows)
            if not job.answer.done():
                job.answer.set_result(fates[start:end])
            start = end


async def _commit_or_split(commit: CommitBatch, rows: Sequence[Row]) -> list[Fate]:
    """Halve a refused batch until the row that cannot be stored stands alone; commit its neighbours."""
    try:
        return list(await commit(rows))
    except RowRefusedError as error:
        if len(rows) == 1:
            log.warning("row.refused", event_id=rows[0].event_id, kind=rows[0].kind, reason=error.detail)
            return [Refusal(detail=error.detail)]
    middle = len(rows) // 2
    return await _commit_or_split(commit, rows[:middle]) + await _commit_or_split(commit, rows[middle:])
