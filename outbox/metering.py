"""Counts records by the channels that brought them: each once, when its copies have had time to come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeAlias

from outbox.store import Store

LABELS_MAX: Final = 50_000
"""Labels that are counted by; records of further ones are not counted."""
DELAY_BUCKETS: Final = 24
"""Bucket n counts delays of at most 2**n milliseconds; the last one (2.3 hours) also all longer ones."""
CELLS_KEPT: Final = timedelta(hours=6)
"""How long a cell that was told stays: what is counted late finds it, instead of beginning it anew."""

Channels: TypeAlias = tuple[str, ...]
"""In alphabetical order, each once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Records of one label, first put in one hour, that the same channels brought.

    A count only grows, so that a cell can be told any number of times: the larger count is the truth.
    """

    label: str
    hour: datetime
    channels: Channels
    count: int
    delay_ms_max: int = 0
    """Between the first two channels of a record; 0 when there was one."""
    delays: tuple[int, ...] = ()
    """Records by that delay, ``DELAY_BUCKETS`` of them; empty when there was one channel."""

    @property
    def key(self) -> tuple[str, datetime, Channels]:
        """What it counts."""
        return self.label, self.hour, self.channels

    def plus(self, other: Cell) -> Cell:
        """Both together; they count the same."""
        longer, shorter = sorted((self.delays, other.delays), key=len, reverse=True)
        delays = tuple(a + b for a, b in zip(longer, shorter or (0,) * len(longer), strict=True))
        return replace(
            self,
            count=self.count + other.count,
            delay_ms_max=max(self.delay_ms_max, other.delay_ms_max),
            delays=delays,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One record and when each of its channels first brought it."""

    label: str
    first_at: datetime
    channels: dict[str, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What one call counted. ``looked`` is how many records it passed; below the limit, nothing is left."""

    looked: int
    counted: tuple[Cell, ...]


class Metering(Protocol):
    """A store that remembers which channels brought a record, and counts it by them exactly once."""

    async def sweep(self, *, before: datetime, limit: int) -> Sweep:
        """Count up to ``limit`` records first put until ``before`` that were not counted yet.

        Counts and the place that was reached are one transaction. A record is counted in whatever state it
        is; one without a channel, one that was carried here from another store, or a second body of a known
        id is passed over.
        """
        ...

    async def untold(self, *, limit: int) -> list[Cell]:
        """Cells that grew since they were told, oldest hour first."""
        ...

    async def told(self, cells: Sequence[Cell], *, kept_max: int) -> int:
        """Somebody else keeps these counts now. Returns how many old cells were forgotten.

        Told ones are, after ``CELLS_KEPT``; above ``kept_max`` cells also the oldest that nobody heard of.
        """
        ...


class MeteredStore(Store, Metering, Protocol):
    """A queue with a meter."""


def cells_of(records: Iterable[Seen]) -> list[Cell]:
    """The records' counts, one cell for each label, hour and set of channels."""
    cells: dict[tuple[str, datetime, Channels], Cell] = {}
    for record in records:
        cell = _cell(record)
        known = cells.get(cell.key)
        cells[cell.key] = cell if known is None else known.plus(cell)
    return list(cells.values())


def hour_of(at: datetime) -> datetime:
    """The beginning of the hour."""
    return at.replace(minute=0, second=0, microsecond=0)


def bucket_of(delay_ms: int) -> int:
    """The first bucket that a delay fits into."""
    return min(max(0, delay_ms - 1).bit_length(), DELAY_BUCKETS - 1)


def _cell(record: Seen) -> Cell:
    channels = tuple(sorted(record.channels))
    bare = Cell(label=record.label, hour=hour_of(record.first_at), channels=channels, count=1)
    if len(channels) < 2:
        return bare
    first_at, second_at = sorted(record.channels.values())[:2]
    delay_ms = round((second_at - first_at) / timedelta(milliseconds=1))
    delays = [0] * DELAY_BUCKETS
    delays[bucket_of(delay_ms)] = 1
    return replace(bare, delay_ms_max=delay_ms, delays=tuple(delays))
