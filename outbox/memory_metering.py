"""The memory store's meter."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice

from outbox.memory_state import State
from outbox.metering import CELLS_KEPT, Cell, Channels, Sweep, cells_of, hour_of


class MemoryMetering:
    """``Metering`` in a dictionary: cells, each with the count that was told."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, datetime, Channels], tuple[Cell, int]] = {}
        self._swept_at = datetime(1970, 1, 2, tzinfo=UTC)

    @abstractmethod
    def _open(self) -> State: ...

    async def sweep(self, *, before: datetime, limit: int) -> Sweep:
        state = self._open()
        now = state.clock.now()
        due: list[str] = []
        for id_, (_, first_at) in islice(state.uncounted.items(), limit):
            if before < first_at <= now:
                break
            due.append(id_)
        counted = cells_of(state.seen_by_now(id_) for id_ in due)
        for cell in counted:
            known, told = self._cells.get(cell.key, (None, 0))
            self._cells[cell.key] = (cell if known is None else known.plus(cell), told)
        for id_ in due:
            _, first_at = state.uncounted.pop(id_)
            if first_at <= now:
                self._swept_at = max(self._swept_at, first_at)
        return Sweep(looked=len(due), counted=tuple(counted))

    async def untold(self, *, limit: int) -> list[Cell]:
        self._open()
        untold = [cell for cell, told in self._cells.values() if told < cell.count]
        return sorted(untold, key=lambda cell: cell.hour)[:limit]

    async def told(self, cells: Sequence[Cell], *, kept_max: int) -> int:
        self._open()
        for cell in cells:
            known, told = self._cells.get(cell.key, (None, 0))
            if known is not None:
                self._cells[cell.key] = (known, max(told, cell.count))
        before = hour_of(self._swept_at) - CELLS_KEPT
        oldest = sorted(self._cells, key=lambda key: key[1])
        gone = [k for k in oldest if k[1] < before and self._cells[k][1] >= self._cells[k][0].count]
        kept = [key for key in oldest if key not in gone]
        gone += kept[: max(0, len(kept) - kept_max)]
        for key in gone:
            del self._cells[key]
        return len(gone)
