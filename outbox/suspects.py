"""Who failed together: finds the record that poisons a batch by halving. Pure; a bounded hint in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from outbox.record import Record

SUSPECTS_MAX: Final = 10_000
"""Rows remembered; the oldest are forgotten, which costs one more failure of theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suspicion:
    size: int
    """How many of them go together next time."""
    successes: int
    """The destination's successes when they failed."""


class Suspects:
    """Remembers the rows of failed requests until they go through.

    The first failure blames the destination. A failure after a success in between blames the records:
    they go in halves, and a single one gets its own back-off.
    """

    def __init__(self) -> None:
        self._of: dict[int, _Suspicion] = {}

    def __len__(self) -> int:
        return len(self._of)

    def blames_records(self, records: Sequence[Record], successes: int) -> bool:
        """True when all of them failed before and the destination succeeded since."""
        known = [self._of.get(record.rowid) for record in records]
        return all(suspicion is not None and suspicion.successes < successes for suspicion in known)

    def failed(self, records: Sequence[Record], *, successes: int, halve: bool) -> None:
        """Remember that these failed in one request."""
        size = max(1, len(records) // 2) if halve else len(records)
        for record in records:
            known = self._of.pop(record.rowid, None)
            if known is not None and not halve:
                size = min(size, known.size)
            self._of[record.rowid] = _Suspicion(size=size, successes=successes)
        while len(self._of) > SUSPECTS_MAX:
            del self._of[next(iter(self._of))]

    def cleared(self, records: Iterable[Record]) -> None:
        """These went through, or have a schedule of their own now."""
        for record in records:
            self._of.pop(record.rowid, None)

    def groups(self, records: Sequence[Record]) -> tuple[list[list[Record]], list[Record]]:
        """Requests to make of what was claimed: batches, and records that must go alone.

        Suspects go only with those they failed with; a record that failed on its own account goes alone;
        one id is in a batch at most once, since receipts are by id.
        """
        batches: list[list[Record]] = []
        solos: list[Record] = []
        fresh: list[Record] = []
        by_size: dict[int, list[Record]] = {}
        for record in records:
            suspicion = self._of.get(record.rowid)
            if record.attempts > 0 or (suspicion is not None and suspicion.size == 1):
                solos.append(record)
            elif suspicion is None:
                fresh.append(record)
            else:
                by_size.setdefault(suspicion.size, []).append(record)
        for size, together in by_size.items():
            for start in range(0, len(together), size):
                batches += distinct(together[start : start + size])
        return batches + distinct(fresh), solos


def distinct(records: Sequence[Record]) -> list[list[Record]]:
    """The records in as few lists as it takes for no list to hold an id twice."""
    lists: list[list[Record]] = []
    copies: dict[str, int] = {}
    for record in records:
        place = copies.get(record.id, 0)
        copies[record.id] = place + 1
        if place == len(lists):
            lists.append([])
        lists[place].append(record)
    return lists
