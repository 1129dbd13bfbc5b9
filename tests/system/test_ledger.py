"""The checker of the kill test finds what is planted, and nothing else."""

from __future__ import annotations

import pytest

from tests.system.ledger import Ledger, Violation, Wrong, check

A, B, C = ({"text": name, "n": [1, None, {"deep": True}]} for name in "ABC")


def kept() -> tuple[Ledger, list[tuple[str, object]]]:
    """a and b are acknowledged, c is not; the lake holds all three as sent."""
    ledger = Ledger()
    rows: list[tuple[str, object]] = []
    for mark, payload in (("a", A), ("b", B), ("c", C)):
        ledger.send(mark, payload)
        rows.append((mark, payload))
    ledger.acknowledge("a")
    ledger.acknowledge("b")
    return ledger, rows


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    ledger, rows = kept()
    assert check(ledger, rows) == []


def test_an_unacknowledged_event_may_be_missing() -> None:
    ledger, rows = kept()
    assert check(ledger, rows[:2]) == []


def test_a_planted_loss_is_found() -> None:
    ledger, rows = kept()
    assert check(ledger, rows[1:]) == [Violation(mark="a", wrong=Wrong.LOST)]


@pytest.mark.parametrize("position", [0, 2], ids=["acknowledged", "unacknowledged"])
def test_a_planted_double_is_found(position: int) -> None:
    ledger, rows = kept()
    doubled = rows[position]
    assert check(ledger, [*rows, doubled]) == [Violation(mark=doubled[0], wrong=Wrong.DOUBLED)]


def test_swapped_payloads_are_found() -> None:
    ledger, rows = kept()
    swapped: list[tuple[str, object]] = [("a", B), ("b", A), rows[2]]
    assert check(ledger, swapped) == [
        Violation(mark="a", wrong=Wrong.ALTERED),
        Violation(mark="b", wrong=Wrong.ALTERED),
    ]


def test_an_altered_unacknowledged_payload_is_found() -> None:
    ledger, rows = kept()
    assert check(ledger, [*rows[:2], ("c", A)]) == [Violation(mark="c", wrong=Wrong.ALTERED)]


def test_a_number_that_became_true_is_found() -> None:
    ledger = Ledger()
    ledger.send("a", {"n": 1})
    assert check(ledger, [("a", {"n": True})]) == [Violation(mark="a", wrong=Wrong.ALTERED)]


def test_a_row_that_nobody_sent_is_found() -> None:
    ledger, rows = kept()
    assert check(ledger, [*rows, ("d", A)]) == [Violation(mark="d", wrong=Wrong.INVENTED)]
