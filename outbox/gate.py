"""The destination's gate: open, away (one probe at a time) or halted. Pure: time and chance are arguments."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from outbox.schedule import next_attempt_at
from outbox.shipper_events import ShipperEvent, ShipperHalted, ShipperPaused, ShipperResumed

NEAR_S: Final = 10.0
"""A success this long ago is still near: an old offender that fails then fails on its own account."""
STORM_WINDOW: Final = 50
STORM_DEAD_MAX: Final = 20


class Gate:
    """Whether the destination may be used, as told by the answers.

    While it is shut nothing but one probe goes out; only a probe opens it again, since a late answer to a
    request from before says nothing about now.
    """

    def __init__(self) -> None:
        self.successes = 0
        """Grows with each delivery: two failures with a success between are no outage."""
        self.probing = False
        self.next_probe_at: datetime | None = None
        """None while open."""
        self._halted_by: str | None = None
        self._met_since: str | None = None
        """What the last probe met when that was no halt: the cause of the halt may be repaired by now."""
        self._failures = 0
        self._shut_at: datetime | None = None
        self._succeeded_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.next_probe_at is None

    @property
    def is_halted(self) -> bool:
        return self._halted_by is not None

    @property
    def halt_reason(self) -> str | None:
        """What a person must repair, by the last answer that said so, and what is in the way since."""
        if self._halted_by is None or self._met_since is None:
            return self._halted_by
        return f"{self._halted_by}; the last probe: {self._met_since}"

    def may_probe(self, now: datetime) -> bool:
        """True when shut, no probe is out and its time has come."""
        return self.next_probe_at is not None and not self.probing and self.next_probe_at <= now

    def success_near(self, sent_at: datetime) -> bool:
        """True when something was delivered at most NEAR_S before ``sent_at``, or since."""
        near = timedelta(seconds=NEAR_S)
        return self._succeeded_at is not None and self._succeeded_at >= sent_at - near

    def failed(
        self,
        *,
        now: datetime,
        jitter: float,
        reason: str,
        is_halt: bool,
        is_probe: bool,
        retry_after_s: float | None = None,
    ) -> list[ShipperEvent]:
        """Shut the gate, or move the next probe; stragglers of the outage do not lengthen its back-off."""
        first = self.is_open
        if first or is_probe:
            self._failures += 1
        if first:
            self._shut_at = now
        probe_at = next_attempt_at(
            now=now, attempts=self._failures, jitter=jitter, retry_after_s=retry_after_s
        )
        if self.next_probe_at is None or is_probe or retry_after_s is not None:
            self.next_probe_at = max(probe_at, self.next_probe_at or probe_at)
        was_halted = self.is_halted
        if is_halt and (is_probe or not was_halted):
            self._halted_by, self._met_since = reason, None
        elif is_probe and was_halted:
            self._met_since = reason
        if self.is_halted and not was_halted:
            return [ShipperHalted(reason=reason, next_probe_at=self.next_probe_at)]
        return [ShipperPaused(reason=reason, next_probe_at=self.next_probe_at)] if first else []

    def answered(self, *, now: datetime, is_probe: bool, delivered: bool) -> list[ShipperEvent]:
        """The destination did its work on a request; a probe opens the gate."""
        if delivered:
            self.successes += 1
            self._succeeded_at = now
        if self.is_open or not is_probe:
            return []
        away_s = 0.0 if self._shut_at is None else (now - self._shut_at).total_seconds()
        resumed = ShipperResumed(was_halted=self.is_halted, away_s=away_s)
        self.next_probe_at = self._shut_at = self._halted_by = self._met_since = None
        self._failures = 0
        return [resumed]


class StormGuard:
    """Counts how the last records ended: a bad deploy must not drain the queue into dead letters."""

    def __init__(self) -> None:
        self._ends: deque[str | None] = deque(maxlen=STORM_WINDOW)

    def allows(self, reason: str) -> bool:
        """False when one more dead letter for this reason would be more than 20 of the last 50."""
        last = list(self._ends)[-(STORM_WINDOW - 1) :]
        return last.count(reason) + 1 <= STORM_DEAD_MAX

    def died(self, reason: str) -> None:
        self._ends.append(reason)

    def delivered(self, records: Iterable[object]) -> None:
        self._ends.extend(None for _ in records)
