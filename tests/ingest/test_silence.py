"""When a silence is none of the usual ones: examples to judge by eye, and what holds for any history."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.heartbeat import Depth, Heartbeat, InstanceState
from ingest.silence import DEAF, HOUR, SILENT, WEEK, Week, expected, is_over, quiet_ears, silent_at, weeks_of
from ingest.watch import Beat

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
DAY = timedelta(days=1)
SHOP: Mapping[int, int] = dict.fromkeys(range(9, 18), 60)
"""Events an hour of a shop: nothing at night."""


def history(weeks: int, *, before: datetime = MONDAY, closed: tuple[int, ...] = ()) -> dict[datetime, int]:
    """A shop open from Monday to Friday; ``closed`` weeks before have nothing."""
    counts: dict[datetime, int] = {}
    for back in range(1, weeks + 1):
        for hour in range(7 * 24):
            at = before - back * WEEK + hour * HOUR
            if back not in closed and at.weekday() < 5 and SHOP.get(at.hour):
                counts[at] = SHOP[at.hour]
    return counts


def judge(
    begin: datetime,
    counts: Mapping[datetime, int],
    *,
    first: datetime | None = None,
    horizon: timedelta = DAY,
) -> datetime | None:
    start = first if first is not None else min(counts, default=None)
    weeks = weeks_of(begin, start, counts, number=4, horizon=horizon)
    return silent_at(begin, weeks, expected_min=20.0, horizon=horizon)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return MONDAY + timedelta(days=day, hours=hour, minutes=minute)


@pytest.mark.parametrize(
    ("begin", "silent"),
    [
        (at(1, 11), at(1, 11, 30)),  # 20 of 60 an hour, and a sixth forgiven at each end
        (at(1, 17), at(2, 10, 20)),  # who leaves an hour early is not missed before the next day
        (at(1, 17, 50), at(2, 10, 20)),
        (at(0, 18), at(1, 10, 20)),  # after a night, an hour later than usual is usual
        (at(4, 18), None),  # on Friday evening
        (at(5, 12), None),  # on Saturday
    ],
)
def test_a_shops_silence_is_judged_by_its_own_hours(begin: datetime, silent: datetime | None) -> None:
    assert judge(begin, history(8)) == silent


def test_a_weekend_is_over_on_monday_morning() -> None:
    assert judge(at(4, 18), history(8), horizon=WEEK) == at(7, 10, 20)


@pytest.mark.parametrize(("weeks", "is_judged"), [(0, False), (1, False), (2, True), (8, True)])
def test_what_is_new_has_no_normal_yet(weeks: int, is_judged: bool) -> None:
    begin = at(1, 11)
    counts = history(weeks, before=MONDAY)
    assert (judge(begin, counts) is not None) is is_judged


@pytest.mark.parametrize(
    ("closed", "is_judged"), [((), True), ((2,), True), ((1, 2), False), ((1, 2, 3, 4), False)]
)
def test_one_week_of_four_may_have_been_a_holiday(closed: tuple[int, ...], is_judged: bool) -> None:
    counts = history(8, closed=closed)
    assert (judge(at(1, 11), counts) is not None) is is_judged


def test_few_events_are_expected_later() -> None:
    counts = {MONDAY - n * HOUR: 1 for n in range(8 * 7 * 24)}
    assert judge(at(0, 0), counts) == at(0, 22)  # of 22 hours one at each end is forgiven
    assert judge(at(0, 0), {hour: 1 for hour in counts if hour.hour == 12}, horizon=WEEK) is None


COUNTS = st.lists(st.integers(0, 500), min_size=30, max_size=30)
WEEKS = st.lists(st.builds(Week, st.just(MONDAY - HOUR), COUNTS), max_size=6)
MINUTES = st.integers(0, 27 * 60)


@given(WEEKS, MINUTES, MINUTES, MINUTES)
def test_a_longer_silence_is_never_more_usual(weeks: list[Week], a: int, b: int, c: int) -> None:
    since, until, later = (MONDAY + timedelta(minutes=n) for n in sorted((a, b, c)))
    assert 0 <= expected(weeks, since, until) <= expected(weeks, since, later) + 1e-6


@given(WEEKS, COUNTS)
def test_more_events_before_never_make_it_more_usual(weeks: list[Week], counts: list[int]) -> None:
    """A week that had nothing at all can only take an alert away."""
    nothing = Week(MONDAY - HOUR, [0] * 30)
    until = MONDAY + DAY
    if len(weeks) != 3:  # the fourth lets the least one go
        assert expected([*weeks, nothing], MONDAY, until) <= expected(
            [*weeks, Week(MONDAY - HOUR, counts)], MONDAY, until
        )
    assert expected([nothing, nothing, *weeks], MONDAY, until) == 0


@given(WEEKS, st.floats(0.1, 1000))
def test_the_moment_is_the_first_minute_that_expects_so_many(weeks: list[Week], least: float) -> None:
    found = silent_at(MONDAY, weeks, expected_min=least, horizon=DAY)
    if found is None:
        assert expected(weeks, MONDAY, MONDAY + DAY) < least
    else:
        assert expected(weeks, MONDAY, found) >= least - 1e-5
        assert expected(weeks, MONDAY, found - timedelta(minutes=1)) < least


NOW = at(1, 12)


def told(*, age_s: float = 1.0, uptime_s: float = 1e6, **instance: Any) -> Beat:
    state = InstanceState(gateway="g", instance="a/b", **{"state": "open", **instance})
    report = Heartbeat(
        name="c", version="", epoch="", boot="", seq=1, uptime_s=uptime_s, depth=Depth(), instances=(state,)
    )
    return Beat(name="c", age_s=age_s, report=report)


def ago(**delta: float) -> str:
    return (NOW - timedelta(**delta)).isoformat()


@pytest.mark.parametrize(
    ("beat", "quiet"),
    [
        (told(last_event_at=ago(minutes=5), kinds={"call": ago(hours=3)}), {"call": at(1, 9)}),
        (told(last_event_at=ago(hours=2), kinds={"call": ago(hours=3)}), {None: at(1, 10), "call": at(1, 9)}),
        (told(last_event_at=ago(hours=2), uptime_s=3599), {None: at(1, 11)}),  # it was down before
        (told(last_event_at=ago(hours=2), state_at=ago(minutes=30)), {None: at(1, 11, 30)}),
        (told(last_event_at=ago(hours=2), state="close"), {}),
        (told(last_event_at=ago(hours=2), state=None), {}),
        (told(last_event_at="yesterday", kinds={"call": "?"}), {}),
    ],
)
def test_only_the_silence_of_an_open_instance_of_a_living_collector_counts(
    beat: Beat, quiet: dict[str | None, datetime]
) -> None:
    assert {ear.kind: ear.begin for ear in quiet_ears(beat, NOW, after_s=900)} == quiet


@pytest.mark.parametrize(
    ("beat", "over"),
    [
        (told(last_event_at=ago(minutes=1), kinds={"call": ago(minutes=1)}), True),
        (told(last_event_at=ago(hours=2), kinds={"call": ago(hours=2)}), False),
        (
            told(last_event_at=ago(hours=2), kinds={}, uptime_s=60),
            False,
        ),  # restarted: heard nothing
        (told(last_event_at=ago(hours=2), state="close"), True),  # another alert tells of that
    ],
)
def test_a_silence_ends_with_an_event_and_not_with_a_restart(beat: Beat, over: bool) -> None:
    raised_at = NOW - HOUR
    for name, subject in ((SILENT, "c/g/a/b"), (DEAF, "c/g/a/b call")):
        assert is_over(name, subject, raised_at, {"c": beat}) is over
        assert is_over(name, subject, raised_at, {}) is False  # its collector does not speak
    assert is_over(SILENT, "c/g/other", raised_at, {"c": beat}) is True  # deleted
