"""Times: every way a gateway writes an instant gives the same one, and no junk gives one."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.jsontext import BigNumber
from contracts.times import as_datetime, as_integer, as_seconds


@pytest.mark.parametrize(
    "value",
    [
        1757464274,
        "1757464274",
        1757464274.0,
        1757464274.9,
        {"low": 1757464274, "high": 0, "unsigned": False},
        {"low": 1757464274, "high": 0},
        1757464274123,
        "1757464274123",
        {"low": 1757464274123 & 0xFFFFFFFF, "high": 1757464274123 >> 32, "unsigned": True},
        "2025-09-10T00:31:14.123Z",
        "2025-09-09T21:31:14-03:00",
    ],
)
def test_the_same_instant_in_every_form(value: object) -> None:
    assert as_seconds(value) == 1757464274


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ({"low": -1, "high": 0, "unsigned": True}, 4294967295),
        ({"low": -1, "high": 0, "unsigned": False}, 4294967295),
        ({"low": -1, "high": -1, "unsigned": False}, None),
        (1.75e9, 1750000000),
        (100_000_000_000, 100_000_000_000),
        (100_000_000_001, 100_000_000),
    ],
)
def test_longs_are_whole_and_milliseconds_are_told_by_size(value: object, seconds: int | None) -> None:
    assert as_seconds(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        *(
            None,
            0,
            "0",
            -5,
            "",
            "soon",
            "12 34",
            True,
            False,
            math.nan,
            math.inf,
            1e300,
            10**30,
            [],
            {},
            "9" * 21,
        ),
        *({"low": 1}, {"low": 1, "high": 2, "other": 3}, {"low": "1", "high": 0}, {"low": 1.5, "high": 0}),
        *(BigNumber("1e400"), "2025-09-10T00:31:14", "2025-99-10T00:31:14Z", "2025-09-10", "١٢٣٤٥٦٧٨٩٠"),
    ],
)
def test_what_is_no_time_gives_none(value: object) -> None:
    assert as_seconds(value) is None
    assert as_datetime(value) is None


@given(st.one_of(st.integers(1, 10**11), st.integers(10**11 + 1, 253_402_300_799_999)))
def test_a_datetime_is_aware_and_exact_to_the_millisecond(milliseconds: int) -> None:
    moment = as_datetime(milliseconds)
    assert moment is not None
    assert moment.tzinfo is UTC
    exact = milliseconds if milliseconds > 10**11 else milliseconds * 1000
    assert (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) == exact


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_long_is_its_integer(number: int) -> None:
    low, high = number & 0xFFFFFFFF, (number >> 32) & 0xFFFFFFFF
    signed = [half - (1 << 32) if half >= 1 << 31 else half for half in (low, high)]
    assert as_integer({"low": signed[0], "high": signed[1], "unsigned": False}) == number
    assert as_integer({"low": low, "high": high, "unsigned": False}) == number
    assert as_integer({"low": signed[0], "high": signed[1], "unsigned": True}) == number % (1 << 64)
