"""Which leases this process holds, and until when by its own monotonic clock (law 14)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from outbox.record import Record


@dataclass(slots=True, kw_only=True)
class _Held:
    lease: int
    until_s: float


class LeaseBook:
    """Times are seconds of one monotonic clock, taken before the database was asked.

    So a lease ends here no later than there, whatever the clocks of the two machines say.
    """

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def claimed(self, records: Iterable[Record], *, until_s: float) -> None:
        """The database has leased these."""
        self._held.update((r.rowid, _Held(lease=r.lease, until_s=until_s)) for r in records)

    def left_s(self, rowid: int, lease: int, *, now_s: float) -> float:
        """How long the lease is good for; 0 or less when it ran out or was never here."""
        held = self._held.get(rowid)
        return held.until_s - now_s if held is not None and held.lease == lease else 0.0

    def ended(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Settled or given back, as (rowid, lease)."""
        for rowid, lease in pairs:
            held = self._held.get(rowid)
            if held is not None and held.lease == lease:
                del self._held[rowid]

    def pairs(self) -> list[tuple[int, int]]:
        """All leases, as (rowid, lease), by rowid."""
        return sorted((rowid, held.lease) for rowid, held in self._held.items())

    def renewed(self, rowids: Iterable[int], *, until_s: float, now_s: float) -> None:
        """These are good until ``until_s``; what was not renewed and has run out is forgotten."""
        for rowid in rowids:
            held = self._held.get(rowid)
            if held is not None:
                held.until_s = max(held.until_s, until_s)  # it may have been claimed anew meanwhile
        for rowid in [rowid for rowid, held in self._held.items() if held.until_s <= now_s]:
            del self._held[rowid]
