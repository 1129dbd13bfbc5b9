"""Counts of what came in, per instance, hour and channel, in bounded memory."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from contracts.times import rfc3339

HOURS_KEPT: Final = 48

TallyKey: TypeAlias = tuple[str, str, str, str]
"""(hour as ``2026-01-31T13:00:00Z``, gateway, instance, channel)"""


def hour_of(now: datetime) -> str:
    """The UTC hour that a count belongs to."""
    return rfc3339(now)[:13] + ":00:00Z"


@dataclass(slots=True, kw_only=True)
class Tally:
    """Never more than ``rows_max`` rows: the oldest goes first."""

    rows_max: int
    rows: OrderedDict[TallyKey, Counter[str]] = field(default_factory=OrderedDict)
    totals: Counter[str] = field(default_factory=Counter)
    """Since start, over all instances."""

    def add(self, *, hour: str, gateway: str, instance: str, channel: str, counts: Mapping[str, int]) -> None:
        """Adds the counts to one row and to the totals."""
        key = (hour, gateway, instance, channel)
        row = self.rows.get(key)
        if row is None:
            while len(self.rows) >= self.rows_max:
                self.rows.popitem(last=False)
            row = self.rows[key] = Counter()
        for name, count in counts.items():
            row[name] += count
            self.totals[name] += count

    def add_total(self, name: str) -> None:
        """Counts what belongs to no instance, such as a path that is no gateway."""
        self.totals[name] += 1

    def prune(self, oldest_hour: str) -> None:
        """Forgets rows of hours before ``oldest_hour``; hours compare as text."""
        for key in [key for key in self.rows if key[0] < oldest_hour]:
            del self.rows[key]
