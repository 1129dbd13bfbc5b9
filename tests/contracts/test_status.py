"""Statuses and stub types: names and numbers of every dialect are one vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.status import (
    STATUSES,
    Dialect,
    canonical_status,
    status_rank,
    stub_names,
    stub_number,
)

WORDS: dict[Dialect, list[tuple[object, ...]]] = {
    "baileys": [
        (0, "0", 0.0, "ERROR"),
        (1, "PENDING"),
        (2, "SERVER_ACK"),
        (3, "DELIVERY_ACK"),
        (4, "READ"),
        (5, "PLAYED"),
    ],
    "evolution": [
        ("ERROR", "FAILED", 0),
        ("PENDING", 1),
        ("SERVER_ACK", "SENT", 2),
        ("DELIVERY_ACK", "DELIVERED", "delivery_ack"),
        ("READ", 4),
        ("PLAYED", 5),
    ],
    "waha": [(-1, "-1", "ERROR"), (0, "PENDING"), (1, "SERVER"), (2, "DEVICE"), (3, "READ"), (4, "PLAYED")],
    "cloud": [("failed",), (), ("sent",), ("delivered",), ("read",), ("played",)],
}


@pytest.mark.parametrize("dialect", list(WORDS))
def test_every_word_of_a_dialect_has_its_one_name(dialect: Dialect) -> None:
    for name, words in zip(STATUSES, WORDS[dialect], strict=True):
        assert [canonical_status(word, dialect) for word in words] == [name] * len(words)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("deleted", "DELETED"),
        (" Warning ", "WARNING"),
        (9, "9"),
        (-7, "-7"),
        (None, ""),
        (True, ""),
        ({}, ""),
        (1.5, ""),
    ],
)
def test_what_is_unknown_stays_as_sent(value: object, name: str) -> None:
    assert canonical_status(value, "cloud") == name


def test_ranks_grow_with_progress() -> None:
    assert [status_rank(name) for name in STATUSES] == [0, 1, 2, 3, 4, 5]
    assert status_rank("DELETED") is None


def test_the_stub_table_is_waprotos() -> None:
    known = {
        "REVOKE": 1,
        "CIPHERTEXT": 2,
        "GROUP_CREATE": 20,
        "GROUP_PARTICIPANT_ADD": 27,
        "CALL_MISSED_VOICE": 40,
    }
    known |= {
        "E2E_IDENTITY_UNAVAILABLE": 118,
        "ADMIN_REVOKE": 132,
        "PINNED_MESSAGE_IN_CHAT": 177,
        "CHANGE_LID": 213,
    }
    assert {name: stub_number(name) for name in known} == known
    assert len(stub_names()) == len(set(stub_names())) == 226


@given(st.integers(0, 225))
def test_a_stub_is_the_same_by_name_number_or_digits(number: int) -> None:
    name = stub_names()[number]
    assert stub_number(name) == stub_number(name.lower()) == stub_number(number) == number
    assert stub_number(str(number)) == stub_number(float(number)) == number


@pytest.mark.parametrize("value", [None, True, "", "NEVER_HEARD", -1, "-1", 1.5, [], {}])
def test_what_is_no_stub_has_no_number(value: object) -> None:
    assert stub_number(value) is None


def test_a_stub_newer_than_the_table_keeps_its_number() -> None:
    assert stub_number(999) == 999
