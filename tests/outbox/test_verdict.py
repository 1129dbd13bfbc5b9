"""Contract §3's table: every int and every failure has a verdict, and the examples have theirs."""

from __future__ import annotations

import itertools

import pytest

from outbox.verdict import TransportFailure, Verdict, classify_response, splits

FLAGS = list(itertools.product([False, True], repeat=3))


def expected(status: int, *, receipt: bool, own_too_large: bool, alone: bool) -> Verdict:
    """The table once more, row by row as the contract has it."""
    if 200 <= status <= 299:
        return Verdict.DELIVERED if receipt else Verdict.HALT
    if status in (408, 425, 429):
        return Verdict.RETRY
    if status in (400, 422):
        return Verdict.DEAD if alone else Verdict.RETRY
    if status in (413, 415) and not alone:
        return Verdict.RETRY
    if status == 413 and own_too_large:
        return Verdict.DEAD
    if 300 <= status <= 499:
        return Verdict.HALT
    return Verdict.RETRY


@pytest.mark.parametrize(("receipt", "own_too_large", "alone"), FLAGS)
def test_every_int_has_the_verdict_of_the_contract(receipt: bool, own_too_large: bool, alone: bool) -> None:
    for status in range(-10, 1000):
        verdict = classify_response(status, receipt=receipt, own_too_large=own_too_large, alone=alone)
        wanted = expected(status, receipt=receipt, own_too_large=own_too_large, alone=alone)
        assert verdict is wanted, status


@pytest.mark.parametrize("failure", list(TransportFailure))
@pytest.mark.parametrize(("receipt", "own_too_large", "alone"), FLAGS)
def test_no_answer_is_never_the_records_fault(
    failure: TransportFailure, receipt: bool, own_too_large: bool, alone: bool
) -> None:
    verdict = classify_response(failure, receipt=receipt, own_too_large=own_too_large, alone=alone)
    assert verdict is Verdict.RETRY
    assert not splits(failure, alone=alone)


@pytest.mark.parametrize(("own_too_large", "receipt"), list(itertools.product([False, True], repeat=2)))
def test_only_a_single_post_kills(own_too_large: bool, receipt: bool) -> None:
    for status in range(-10, 1000):
        verdict = classify_response(status, receipt=receipt, own_too_large=own_too_large, alone=False)
        assert verdict is not Verdict.DEAD, status


def test_a_batch_is_split_by_what_may_be_one_records_fault() -> None:
    assert [status for status in range(-10, 1000) if splits(status, alone=False)] == [400, 413, 415, 422]
    assert not any(splits(status, alone=True) for status in range(-10, 1000))
