"""What a disaster did, a line each, printed as one table after the tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from typing import Final

PROPERTY: Final = "disaster"
"""Under this name a test's report carries its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One disaster. ``kept``: of what was sent, how much is there; events, or records where no lake is."""

    disaster: str
    rounds: int
    sent: int
    acknowledged: int
    kept: int
    lost: int
    doubled: int
    altered: int = 0
    """Another payload, or never sent."""
    seed: int = 0

    def as_property(self) -> dict[str, str | int]:
        """What a report can carry from one process to another."""
        return asdict(self)


def table(scores: Iterable[tuple[Score, float]]) -> list[str]:
    """Lines for people, of each score and how many seconds it took; none without scores."""
    rows = [(*(str(value) for value in astuple(score)), f"{seconds:.0f}") for score, seconds in scores]
    if not rows:
        return []
    heads = (*(field.name for field in fields(Score)), "seconds")
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    return [_line(row, widths) for row in (heads, *rows)]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *numbers = row
    return "  ".join(
        [first.ljust(widths[0]), *(n.rjust(w) for n, w in zip(numbers, widths[1:], strict=True))]
    )
