"""The back-off: grows, is spread, is capped, listens to Retry-After, and never ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.schedule import DELAY_S_MAX, next_attempt_at, parse_retry_after

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JITTERS = st.floats(min_value=0, max_value=1, exclude_max=True)


def delay_s(attempts: int, jitter: float, retry_after_s: float | None = None) -> float:
    at = next_attempt_at(now=NOW, attempts=attempts, jitter=jitter, retry_after_s=retry_after_s)
    return (at - NOW).total_seconds()


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(0, 1), (1, 1), (2, 2), (3, 4), (8, 128), (9, 250), (10_000_000, 250)]
)
def test_the_middle_of_the_spread_doubles_up_to_the_cap(attempts: int, seconds: float) -> None:
    assert delay_s(attempts, 0.5) == pytest.approx(seconds)


@given(attempts=st.integers(min_value=-5, max_value=10**9), jitter=JITTERS)
def test_a_delay_is_within_20_percent_and_the_cap(attempts: int, jitter: float) -> None:
    middle = delay_s(attempts, 0.5)
    assert 0.8 * middle - 1e-5 <= delay_s(attempts, jitter) <= min(1.2 * middle, DELAY_S_MAX) + 1e-5


def test_the_spread_is_used() -> None:
    assert delay_s(3, 0.0) == pytest.approx(3.2)
    assert delay_s(3, 0.999_999) == pytest.approx(4.8, abs=1e-3)
    assert delay_s(99, 0.0) < delay_s(99, 0.9)


@given(asked=st.floats(), attempts=st.integers(1, 50), jitter=JITTERS)
def test_retry_after_is_a_clamped_lower_bound(asked: float, attempts: int, jitter: float) -> None:
    delay = delay_s(attempts, jitter, asked)
    assert delay_s(attempts, jitter) <= delay <= DELAY_S_MAX
    if 0 <= asked <= DELAY_S_MAX:
        assert delay >= asked - 1e-5


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0),
        (" 7 ", 7),
        ("1.5", 1.5),
        ("999999999999", DELAY_S_MAX),
        ("-5", None),
        ("1e400", None),
        ("nan", None),
        ("soon", None),
        ("٣", None),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(days=9), usegmt=True), 0),
        (format_datetime(NOW + timedelta(days=9), usegmt=True), DELAY_S_MAX),
        ("Thu, 01 Jan 2026 02:00:30 +0200", 30),
        ("Thursday, 01-Jan-26 00:00:30 GMT", 30),
        ("Thu, 99 Foo 2026 00:00:00 GMT", None),
    ],
)
def test_retry_after_as_number_or_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, now=NOW) == seconds


@given(st.text())
def test_a_hostile_header_is_no_error(value: str) -> None:
    seconds = parse_retry_after(value, now=NOW)
    assert seconds is None or 0 <= seconds <= DELAY_S_MAX
