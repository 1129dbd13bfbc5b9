"""One id a fact: the name is a JSON array, so nothing can be forged by joining and nothing shifts."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.events import OCCURRENCE, Part
from contracts.identity import NAMESPACE, batch_id, event_id, heartbeat_id, stamp_occurrence

SCALARS = st.one_of(st.text(), st.integers(), st.booleans(), st.none())
PARTS = st.lists(st.one_of(SCALARS, st.lists(SCALARS, max_size=3).map(tuple)), max_size=5)


@given(scope=st.text(), kind=st.text(), parts=PARTS)
def test_the_id_is_uuid5_of_the_compact_json_array(scope: str, kind: str, parts: list[Part]) -> None:
    name = json.dumps([1, scope, kind, *parts], separators=(",", ":"), ensure_ascii=False)
    assert event_id(scope, kind, parts) == str(uuid.uuid5(NAMESPACE, name))


def _shape(parts: object) -> str:
    return json.dumps(parts)


@given(one=PARTS, other=PARTS)
def test_different_parts_never_share_an_id(one: list[Part], other: list[Part]) -> None:
    assert (event_id("s", "k", one) == event_id("s", "k", other)) == (_shape(one) == _shape(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a|b", "c"), ("a", "b|c")),
        (('a","b',), ("a", "b")),
        (("", "a"), ("a", "")),
        ((None, "a"), ("", "a")),
        ((None, "a"), ("a",)),
        ((0, "x"), ("0", "x")),
        ((False,), (0,)),
        ((("a", "b"),), ("a", "b")),
    ],
)
def test_no_joiner_can_be_forged_and_no_part_shifts(one: tuple[Part, ...], other: tuple[Part, ...]) -> None:
    assert event_id("s", "k", one) != event_id("s", "k", other)


def test_scope_and_kind_are_part_of_it() -> None:
    ids = {event_id(scope, kind, ()) for scope in ("a", "b") for kind in ("a", "b")}
    assert len(ids) == 4


def test_the_occurrence_takes_its_place_among_the_parts() -> None:
    assert event_id("s", "k", ("a", OCCURRENCE, "b"), "2025-01-01T00:00:00.000Z") == event_id(
        "s", "k", ("a", "2025-01-01T00:00:00.000Z", "b")
    )
    assert event_id("s", "k", (OCCURRENCE,), stamp_occurrence("e", 7)) == event_id(
        "s", "k", (("stamp", "e", 7),)
    )


def test_an_occurrence_that_no_part_asks_for_changes_nothing() -> None:
    assert event_id("s", "k", ("a",), "now") == event_id("s", "k", ("a",))


def test_parts_that_ask_for_an_occurrence_need_one() -> None:
    with pytest.raises(ValueError, match="occurrence"):
        event_id("s", "k", (OCCURRENCE,))


def test_two_stamps_are_two_occurrences() -> None:
    stamps = [stamp_occurrence("e", 1), stamp_occurrence("e", 2), stamp_occurrence("f", 1)]
    assert len({event_id("s", "k", (OCCURRENCE,), stamp) for stamp in stamps}) == 3


@given(st.text(st.characters(exclude_categories=()), max_size=5))
def test_a_lone_surrogate_stands_as_its_escape(text: str) -> None:
    name = json.dumps([1, "s", "k", text], separators=(",", ":"), ensure_ascii=False)
    escaped = "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in name)
    assert event_id("s", "k", (text,)) == str(uuid.uuid5(NAMESPACE, escaped))


def test_ids_of_requests_are_built_the_same_way() -> None:
    assert heartbeat_id("n", "b", 3) == str(uuid.uuid5(NAMESPACE, '["heartbeat","n","b",3]'))
    assert batch_id(["x", "y"]) == str(uuid.uuid5(NAMESPACE, '["batch","x","y"]'))
