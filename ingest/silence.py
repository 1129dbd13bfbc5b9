"""Decides from when on a silence is none of the usual ones, by the same hours of the weeks before. Pure.

Nights, weekends and lunch breaks are in those weeks too, so they page nobody; what is new has no normal yet,
and nothing is said of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final, NamedTuple

from contracts.heartbeat import OPEN_STATES
from contracts.times import as_datetime
from ingest.watch import Beat

SILENT, DEAF = "instance.silent", "instance.deaf"
HOUR: Final = timedelta(hours=1)
WEEK: Final = timedelta(days=7)
WEEKS_MIN: Final = 2
"""Weeks of which something must be known before anything is normal."""
WEEKS_TO_TRIM: Final = 4
"""With so many the least of them does not count: it may have been a holiday or an outage."""
SLACK_SHARE: Final = 1 / 6
"""Of a silence's length, up to an hour, its end is forgiven: people come late, and clocks are put forward."""
_ROUNDING: Final = 1e-6


class Ear(NamedTuple):
    """What was last heard of an instance, or of one kind of it, and since when a silence counts."""

    collector: str
    gateway: str
    instance: str
    kind: str | None
    """None: events of all kinds."""
    begin: datetime

    @property
    def alert(self) -> str:
        """The name of its alert."""
        return SILENT if self.kind is None else DEAF

    @property
    def subject(self) -> str:
        """The subject of its alert."""
        return subject_of(self.collector, self.gateway, self.instance, self.kind)


def subject_of(collector: str, gateway: str, instance: str, kind: str | None) -> str:
    """The instance, or one kind of its events."""
    whole = f"{collector}/{gateway}/{instance}"
    return whole if kind is None else f"{whole} {kind}"


class Week:
    """The counts of an earlier week, moved to the present; an hour's count is spread evenly over it."""

    def __init__(self, start: datetime, counts: Sequence[int]) -> None:
        """``start`` is the hour, moved, of the first count; the others follow hour by hour."""
        self._start = start
        self._sums = [0, *accumulate(counts)]

    def between(self, since: datetime, until: datetime) -> float:
        """How many came."""
        return self._until(until) - self._until(since)

    def _until(self, at: datetime) -> float:
        hours = min(max(0.0, (at - self._start) / HOUR), len(self._sums) - 1)
        whole = int(hours)
        if whole == len(self._sums) - 1:
            return self._sums[whole]
        return self._sums[whole] + (hours - whole) * (self._sums[whole + 1] - self._sums[whole])


def expected(weeks: Sequence[Week], since: datetime, until: datetime) -> float:
    """How many events at least a usual week brings between the two; 0 while nothing is known to be usual.

    Of each week the least of what came then and of what came an hour later counts, both without the forgiven
    end: who leaves an hour early is not missed, nor who comes an hour late.
    """
    if len(weeks) < WEEKS_MIN:
        return 0.0
    slack = min(HOUR, (until - since) * SLACK_SHARE)
    found = sorted(
        min(week.between(since, until - slack), week.between(since + HOUR, until + HOUR - 2 * slack))
        for week in weeks
    )
    return found[1] if len(found) >= WEEKS_TO_TRIM else found[0]


def silent_at(
    begin: datetime, weeks: Sequence[Week], *, expected_min: float, horizon: timedelta
) -> datetime | None:
    """The minute from which on a silence since ``begin`` is none of the usual ones; None within ``horizon``.

    By Poisson's law the chance that nothing comes where n are expected is exp(-n).
    """
    minutes = int(horizon / timedelta(minutes=1))
    reached = bisect_left(
        range(minutes + 1),
        expected_min - _ROUNDING,
        key=lambda minute: expected(weeks, begin, begin + timedelta(minutes=minute)),
    )
    return None if reached > minutes else begin + timedelta(minutes=reached)


def hours_before(begin: datetime, number: int, horizon: timedelta) -> tuple[datetime, datetime]:
    """The hours that ``weeks_of`` needs of the ``number``-th week before, 1 is the last: from, and before."""
    start = _floor(begin - number * WEEK)
    return start, _floor(begin - number * WEEK + horizon + HOUR) + HOUR


def weeks_of(
    begin: datetime,
    first: datetime | None,
    counts: Mapping[datetime, int],
    *,
    number: int,
    horizon: timedelta,
) -> list[Week]:
    """The weeks before ``begin`` that lie wholly behind ``first``, the hour of the first count ever."""
    weeks = []
    for back in range(1, number + 1):
        start, end = hours_before(begin, back, horizon)
        if first is None or first > start:
            break
        hours = [start + n * HOUR for n in range(int((end - start) / HOUR))]
        weeks.append(Week(start + back * WEEK, [counts.get(hour, 0) for hour in hours]))
    return weeks


def quiet_ears(beat: Beat, now: datetime, *, after_s: float) -> Iterator[Ear]:
    """The open instances of a collector that speaks, and their kinds, that were quiet for ``after_s``.

    What was before this start of the collector, or before the instance was open, is nobody's silence.
    """
    started_at = now - timedelta(seconds=beat.age_s + beat.report.uptime_s)
    for state in beat.report.instances:
        if state.state not in OPEN_STATES:
            continue
        floor = max(started_at, as_datetime(state.state_at) or started_at)
        last: list[tuple[str | None, str | None]] = [(None, state.last_event_at), *state.kinds.items()]
        for kind, text in last:
            at = as_datetime(text)
            if at is not None and (begin := max(at, floor)) <= now - timedelta(seconds=after_s):
                minute = begin.replace(second=0, microsecond=0)  # two heartbeats differ on when one started
                yield Ear(beat.name, state.gateway, state.instance, kind, minute)


def is_over(name: str, subject: str, raised_at: datetime, beats: Mapping[str, Beat]) -> bool:
    """Whether a silence has ended: an event came after its alert, or the instance is not open any more.

    ``beats``: the collectors that speak. One that was restarted has not heard anything by that.
    """
    source, kind = (subject, None) if name == SILENT else subject.rpartition(" ")[::2]
    collector, _, rest = source.partition("/")
    gateway, _, instance = rest.partition("/")
    beat = beats.get(collector)
    if beat is None:
        return False
    for state in beat.report.instances:
        if (state.gateway, state.instance) == (gateway, instance):
            last = as_datetime(state.last_event_at if kind is None else state.kinds.get(kind))
            return state.state not in OPEN_STATES or (last is not None and last > raised_at)
    return True  # it was deleted


def _floor(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)
