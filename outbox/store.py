"""The port of the engine's stores: a durable queue whose every method has committed when it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from outbox.kept import Keeping
from outbox.record import NewRecord, PutResult, Record
from outbox.verdict import Verdict

if TYPE_CHECKING:
    from outbox.blobs import Blobs

MEMBERS_MAX: Final = 512
"""Members kept of one guarded subject; a subject with more is not suppressed."""
SIGHTING_CHANNELS_MAX: Final = 16
"""Channels remembered of one record; further ones are not."""
REASON_CHARS_MAX: Final = 1_000
"""Characters kept of a reason."""


class StoreError(Exception):
    """The store cannot do what was asked."""


class StoreUnavailable(StoreError):
    """For now: disk full, file locked, closed. Nothing was stored; the next operation may work again."""


class StoreFull(StoreUnavailable):
    """No room for new records: a limit is reached or the disk is full. What waits goes on being shipped."""


class StoreBusy(StoreError):
    """Another process has this store open."""


class StoreCorrupt(StoreError):
    """The file is no store of this release, or damaged; it was not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLimits:
    """Where a store stops taking new records. They are looked at before a put, which may go beyond them."""

    rows_max: int = 5_000_000
    """Records waiting."""
    bytes_max: int = 10 * 1024**3
    """Bytes of the bodies waiting, and of their blobs."""
    wal_bytes_max: int = 1024**3
    """The write-ahead log, which only a reader that stays can make grow so far."""
    reserve_bytes: int = 16 * 1024 * 1024
    """Room kept on the disk for finishing deletes when it is full: twice the log of its usual size."""

    def share(self, waiting: int, body_bytes: int) -> float:
        """How full, 1.0 and above is full."""
        return max(waiting / self.rows_max, body_bytes / self.bytes_max)

    def admit(self, waiting: int, body_bytes: int) -> None:
        """Raises StoreFull when nothing may come in."""
        if waiting >= self.rows_max:
            raise StoreFull(f"{waiting} records wait, the limit is {self.rows_max}")
        if body_bytes >= self.bytes_max:
            raise StoreFull(f"{body_bytes} bytes wait, the limit is {self.bytes_max}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How one claimed record ended.

    DELIVERED drops the body and keeps id and digest; DEAD moves it to the dead letters; RETRY sets
    ``due_at`` and, unless ``spent`` is False, counts an attempt. HALT is no end of a record.
    """

    rowid: int
    lease: int
    verdict: Verdict
    now: datetime
    due_at: datetime | None = None
    status: int | None = None
    reason: str = ""
    spent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """Depth by state. ``waiting`` includes ``claimed``; ``bytes`` are the bodies waiting."""

    waiting: int
    claimed: int
    dead: int
    oldest_at: datetime | None
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats(QueueStats):
    """The same of a store of one process, and what it is kept in.

    ``waiting`` includes what waits for blobs, ``bytes`` the blobs that are kept, but the dead ones.
    """

    seen: int
    held: int
    file_bytes: int
    """Database and write-ahead log on disk; 0 where there is no file."""
    wal_bytes: int
    """The write-ahead log's part of it."""
    has_reserve: bool = True
    """False while the disk has no room for it, hence for anything new."""
    fsync_s: float | None = None
    """How long one durable write took at the start."""
    engine: str = ""
    """Name and version of what keeps the records."""
    salvaged: str = ""
    """What became of a file that was found damaged since the start."""
    blobs_waiting: int = 0
    """Blobs to be delivered."""
    blobs_dead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadRecord:
    """A dead letter. ``body`` is None in lists; digest and channel are empty where a queue keeps none."""

    rowid: int
    id: str
    digest: bytes = b""
    label: str
    channel: str = ""
    status: int | None
    reason: str
    attempts: int
    created_at: datetime
    died_at: datetime
    body_bytes: int
    body: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One channel that brought a record: when first, when last, how often."""

    digest: bytes
    channel: str
    first_at: datetime
    last_at: datetime
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The last record of a storm, now put; ``count`` records were held under ``key``."""

    key: str
    count: int
    result: PutResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneLimits:
    """What may be forgotten, and how much in one call."""

    seen_before: datetime
    seen_rows_max: int
    dead_before: datetime
    dead_through: int
    """Only dead letters up to this rowid: what was exported."""
    dead_rows_max: int
    last_rows_max: int
    rows_per_call_max: int


class Claiming(Protocol):
    """What a worker needs of a queue: records under a lease, and a way to end or return them.

    Every method may raise ``StoreUnavailable``; then it has done nothing. A call that was cancelled may
    still have been done. A queue with a clock of its own (the database's) measures what is due, and how far
    a ``due_at`` lies behind its ``now``, by that clock.
    """

    async def claim(self, *, now: datetime, limit: int, bytes_max: int) -> list[Record]:
        """Lease up to ``limit`` due records, oldest due first; the first may be above ``bytes_max`` alone."""
        ...

    def still_held(self, record: Record) -> bool:
        """False once its lease may have run out or was given up: nothing may be done with it any more."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> int:
        """End what is still held by its lease; the rest changes nothing. Returns how many were ended."""
        ...

    async def release(self, records: Sequence[Record]) -> int:
        """Give leases back; the records are as they were before the claim."""
        ...

    async def next_due(self) -> datetime | None:
        """When the next record that nobody holds is due; None when there is none."""
        ...


class Queue(Claiming, Protocol):
    """What every store of the engine offers, whoever puts into it."""

    async def stats(self) -> QueueStats: ...

    async def dead_list(self, *, limit: int, after: int = 0) -> list[DeadRecord]:
        """Dead letters without bodies, oldest first, with rowid above ``after``."""
        ...

    async def dead_show(self, record_id: str) -> list[DeadRecord]:
        """The dead letters of an id (more than one when its digests differ), with bodies."""
        ...

    async def dead_requeue(self, ids: Sequence[str] | None) -> int:
        """Back into the queue, due now, attempts 0. None means all."""
        ...

    async def dead_drop(self, ids: Sequence[str] | None) -> int:
        """Forget for good, also the ids: the next copy is stored again. None means all."""
        ...

    async def close(self) -> None:
        """Finish what was queued, then close. Closing twice is fine."""
        ...


class Store(Queue, Keeping, Protocol):
    """A durable at-least-once queue of bytes for one process that also judges what comes in.

    A record that has blobs is claimed only after they were delivered.
    """

    @property
    def epoch(self) -> str:
        """Random at the file's creation."""
        ...

    @property
    def blobs(self) -> Blobs:
        """The blobs of its records."""
        ...

    async def put(self, records: Sequence[NewRecord]) -> list[PutResult]:
        """Put all or none, in one transaction, in order.

        A copy (id and digest waiting, delivered or dead) only adds to its sightings. Then the guard is
        asked; what it lets through is inserted and remembered. A callable id gets its stamp after that.
        Blobs of what was inserted are durable before it is; the file of one that is not needed is removed.
        Raises StoreFull when something would have to be inserted and the store was full before.
        """
        ...

    async def stats(self) -> StoreStats: ...

    async def sightings(self, record_id: str) -> list[Sighting]:
        """Channels that brought the id, by first time, for as long as the record is remembered."""
        ...

    async def get_meta(self, key: str) -> bytes | None: ...

    async def set_meta(self, key: str, value: bytes) -> None: ...

    async def hold(self, key: str, record: NewRecord) -> int:
        """Keep only the newest record under ``key`` until it is released; returns how many came.

        A copy that is held or known already is not counted. The record's guard is not applied; it has no
        blobs.
        """
        ...

    async def release_held(
        self, *, key: str | None = None, before: datetime | None = None, limit: int = 100
    ) -> list[Released]:
        """Put the last held record of ``key``;

        Without a key: of all, or of those held since before ``before``.

        Guards are not applied. At most ``limit`` keys a call.
        """
        ...

    async def prune(self, limits: PruneLimits) -> int:
        """Forget old rows, a bounded number a call; returns how many. 0 means nothing is left to forget."""
        ...

    async def checkpoint(self) -> bool:
        """Shorten the write-ahead log; False when a reader is in the way."""
        ...
