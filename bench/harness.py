"""Runs ours and the reference in turn, takes medians and prints one line a figure."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Measure: TypeAlias = Callable[[str], float]
"""Takes a name that no other run has; gives the number of that run, or raises when its rows do not add up."""


class WrongCountError(RuntimeError):
    """The database does not hold what was acknowledged: the number of such a run means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    seconds: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure: reached when ``ratio`` is at least ``goal``.

    ``ratio`` is ours ÷ reference; where less is better (``at_most``) it is reference ÷ ours.
    """

    name: str
    ours: float
    reference: float
    goal: float
    at_most: bool = False

    @property
    def ratio(self) -> float:
        return self.reference / self.ours if self.at_most else self.ours / self.reference

    @property
    def reached(self) -> bool:
        return self.ratio >= self.goal

    def __str__(self) -> str:
        return (
            f"{self.name} ours={self.ours:.1f} reference={self.reference:.1f} "
            f"ratio={self.ratio:.2f} goal={self.goal}"
        )


def say(text: str) -> None:
    print(text, flush=True)


def in_turn(measures: dict[str, Measure], runs: int) -> dict[str, float]:
    """Median of ``runs`` numbers each; the measures take turns, so that a slow minute hits all of them."""
    numbers: dict[str, list[float]] = {name: [] for name in measures}
    for turn in range(runs):
        for name, measure in measures.items():
            number = measure(f"{turn:02X}")
            numbers[name].append(number)
            say(f"  # {name} run {turn + 1}: {number:,.1f}")
    return {name: statistics.median(taken) for name, taken in numbers.items()}


def expect_rows(what: str, *, acknowledged: int, found: int) -> None:
    """Raises ``WrongCountError`` unless every acknowledged event is one row."""
    if acknowledged != found:
        raise WrongCountError(f"{what}: {acknowledged} acknowledged, {found} rows")
