"""The six numbers that tell how everything goes, from the collector's status and the backend's commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ingest.row import CommitBatch, Committed, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Since the start; waiting and dead are of now. ``trouble`` is empty when all is well."""

    captured: int
    waiting: int
    shipped: int
    stored: int
    duplicates: int
    dead: int
    trouble: str


UNREADABLE: Final = Figures(
    captured=0,
    waiting=0,
    shipped=0,
    stored=0,
    duplicates=0,
    dead=0,
    trouble="the outbox cannot be read now (is the disk full?)",
)
NUMBERS: Final = ("captured", "waiting", "shipped", "stored", "duplicates", "dead")
LookAt: TypeAlias = Callable[[], Awaitable[Figures]]


class Commits:
    """Counts what the backend of this process committed."""

    def __init__(self) -> None:
        self.counts: Counter[Committed] = Counter()

    def around(self, commit: CommitBatch) -> CommitBatch:
        """``commit``, counted after it returned."""

        async def counted(rows: Sequence[Row]) -> list[Committed]:
            fates = await commit(rows)
            self.counts.update(fates)
            return fates

        return counted


def figures_of(status: Mapping[str, Any], commits: Mapping[Committed, int]) -> Figures:
    """From the status document of a living collector."""
    totals, outbox, shipper = status["totals"], status["outbox"], status["shipper"]
    trouble = ""
    if shipper["halted"]:
        trouble = f"shipping is halted: {shipper['halt_reason']} (try: zaplake doctor)"
    elif shipper["next_probe_at"] is not None:
        trouble = "the backend is away; everything waits on disk"
    return Figures(
        captured=totals.get("stored", 0) + totals.get("conflict", 0),
        waiting=outbox["waiting"],
        shipped=shipper["delivered"],
        stored=commits.get(Committed.STORED, 0),
        duplicates=totals.get("duplicate", 0) + commits.get(Committed.DUPLICATE, 0),
        dead=outbox["dead"],
        trouble=trouble,
    )


def words(figures: Figures) -> str:
    """One plain line."""
    line = "  ".join(f"{name} {getattr(figures, name)}" for name in NUMBERS)
    return f"{line}  {figures.trouble}".rstrip()
