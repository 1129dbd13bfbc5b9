"""What becomes of an event whose rule fails, and when that is no longer about the event. Pure."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from contracts.inbox import LoggedEvent

ERROR_CHARS_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """One event that a rule could not take; ``error`` names type and place, never content."""

    event: LoggedEvent
    error: str


class StormError(Exception):
    """So much fails that it is not the events' fault: the consumer is paused, nothing of the batch counts."""


def retry_after_s(attempts: int, ladder: Sequence[float]) -> float | None:
    """The delay after the ``attempts``-th failure; None when the event is dead."""
    assert attempts >= 1
    return ladder[attempts - 1] if attempts <= len(ladder) else None


def error_text(rule: str, error: Exception) -> str:
    """Rule, type and place of an error, and its SQLSTATE; a message may hold what people wrote."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    state = getattr(error, "sqlstate", None)
    told = f" (SQLSTATE {state})" if state else ""
    return f"{rule}: {type(error).__name__}{told}{place}"[:ERROR_CHARS_MAX]


class StormGuard:
    """Tells a poisoned event from a broken rule, by share and by run."""

    def __init__(self, *, share_max: float, share_of_min: int, in_row_max: int) -> None:
        self._share_max, self._share_of_min, self._in_row_max = share_max, share_of_min, in_row_max
        self._in_row = 0

    def failures_max(self, events: int) -> int:
        """How many of a batch of ``events`` may fail."""
        if events < self._share_of_min:
            return events
        return int(events * self._share_max)

    def check(self, seqs: Sequence[int], failed: frozenset[int]) -> None:
        """Judge a batch before its end, in the order of its events. Raises StormError, and begins anew."""
        if not failed:
            return
        longest, _ = self._runs(seqs, failed)
        if longest >= self._in_row_max:
            self._in_row = 0
            raise StormError(f"{longest} events in a row failed")
        if len(failed) > self.failures_max(len(seqs)):
            self._in_row = 0
            raise StormError(f"{len(failed)} of {len(seqs)} events failed")

    def take(self, seqs: Sequence[int], failed: frozenset[int]) -> None:
        """Count a batch that is committed; one that was rolled back comes again, and counts then."""
        if failed:
            _, self._in_row = self._runs(seqs, failed)
        elif seqs:
            self._in_row = 0

    def _runs(self, seqs: Sequence[int], failed: frozenset[int]) -> tuple[int, int]:
        """The longest run of failures, with what was before this batch, and the one at its end."""
        in_row, longest = self._in_row, 0
        for seq in seqs:
            in_row = in_row + 1 if seq in failed else 0
            longest = max(longest, in_row)
        return longest, in_row
