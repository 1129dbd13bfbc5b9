"""Tells its operator when records wait: too many of them, or the oldest for too long."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from collector.alerts import Alerts
from collector.config import Limits

BACKLOG: Final = "outbox.backlog"
LATE_LOOKS: Final = 12
"""Looks in a row that find the oldest too old, until it is told: a minute of the usual ``housekeeping_s``.
Old records that were put back, imported, or kept while no collector ran are gone by then."""


class Backlog:
    """One alert for both, so that one trouble is told once. It ends when both are well below their limits."""

    def __init__(self, limits: Limits, alerts: Alerts) -> None:
        self._records_max, self._age_s_max = limits.backlog_alert_records, limits.backlog_alert_age_s
        self._alerts = alerts
        self._late_looks = 0

    def look(self, *, waiting: int, oldest_age_s: float | None, last_failure: str | None) -> None:
        """Raise or resolve by what waits now, whatever it waits for: nobody has it yet."""
        age_s = oldest_age_s or 0.0
        self._late_looks = self._late_looks + 1 if age_s >= self._age_s_max else 0
        if waiting >= self._records_max or self._late_looks >= LATE_LOOKS:
            detail = f"{waiting} records wait, the oldest for {timedelta(seconds=round(age_s))}"
            if last_failure is not None:
                detail += f"; the last request: {last_failure}"
            self._alerts.raise_(BACKLOG, detail=detail)
        elif waiting < self._records_max // 2 and age_s < self._age_s_max / 2:
            self._alerts.resolve(BACKLOG)
