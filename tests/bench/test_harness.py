"""A bench line says what was measured, and a run whose rows do not add up is an error."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest

from bench import requests
from bench.harness import Line, WrongCountError, expect_rows, in_turn


def test_a_line_has_the_form_that_others_read() -> None:
    line = Line(name="door", ours=3000.0, reference=1000.0, goal=2.5)
    assert str(line) == "door ours=3000.0 reference=1000.0 ratio=3.00 goal=2.5"
    assert line.reached


@pytest.mark.parametrize(("ours", "reached"), [(2.49, False), (2.5, True)])
def test_a_goal_is_reached_from_its_ratio_on(ours: float, reached: bool) -> None:
    assert Line(name="x", ours=ours, reference=1.0, goal=2.5).reached is reached


@pytest.mark.parametrize(("ours", "reached"), [(20.1, False), (20.0, True), (7.0, True)])
def test_where_less_is_better_the_ratio_is_turned_round(ours: float, reached: bool) -> None:
    assert Line(name="memory", ours=ours, reference=20.0, goal=1.0, at_most=True).reached is reached


def test_measures_take_turns_and_the_median_counts() -> None:
    order: list[str] = []

    def measure(name: str, numbers: list[float]) -> Callable[[str], float]:
        left = iter(numbers)

        def run(which: str) -> float:
            order.append(f"{name}{which}")
            return next(left)

        return run

    taken = in_turn({"ours": measure("o", [9.0, 1.0, 5.0]), "peer": measure("p", [2.0, 2.0, 8.0])}, 3)
    assert taken == {"ours": 5.0, "peer": 2.0}
    assert order == ["o00", "p00", "o01", "p01", "o02", "p02"]


def test_a_count_that_differs_is_an_error() -> None:
    expect_rows("same", acknowledged=5, found=5)
    for found in (4, 6):
        with pytest.raises(WrongCountError, match=f"5 acknowledged, {found} rows"):
            expect_rows("other", acknowledged=5, found=found)


@pytest.mark.parametrize("shape", sorted(requests.SHAPES))
def test_no_two_requests_carry_one_event(shape: str) -> None:
    numbers = itertools.count()
    made = [requests.SHAPES[shape](run, numbers, 3) for run in ("00", "01") for _ in range(2)]
    ids: list[str] = []
    for request in made:
        head, _, body = request.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        for line in body.split(b"\n"):
            event = json.loads(line)
            ids.append((event.get("payload") or event["data"])["key"]["id"])
    assert len(ids) == len(set(ids))
