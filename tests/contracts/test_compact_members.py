"""The short way for compact objects gives what looking for places gives, to the byte."""

from __future__ import annotations

import json
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from contracts.cutting import cut
from contracts.jsonpath import compact_members, joined
from contracts.jsontext import without

NAMES = st.sampled_from(["a", "apikey", "é", 'q"', "", "b\\"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("s3cret!!"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=6,
)


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """Objects as gateways write them: compact or not, with or without escapes, with doubled names too."""
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    members = draw(st.lists(st.tuples(NAMES, VALUES), max_size=4))
    spelled = [
        json.dumps({name: value}, ensure_ascii=draw(st.booleans()), separators=separators)[1:-1]
        for name, value in members
    ]
    return ("{" + separators[0].join(spelled) + "}").encode()


def _none(_raw: bytes) -> None:
    """Sends both the long way."""


@given(objects())
@example(b"{}")
@example(b"{ }")
@example(b'{"a":1,"a":2}')
def test_what_is_taken_apart_is_joined_to_the_same_bytes(raw: bytes) -> None:
    members = compact_members(raw)
    assert members is None or joined(members) == raw


@given(objects(), NAMES, st.sampled_from([(), ("s3cret!!",)]))
@example(b'{"apikey":null,"a":1}', "apikey", ())
@example(b'{"apikey":1,"apikey":2}', "apikey", ())
def test_both_ways_agree(raw: bytes, name: str, secrets: tuple[str, ...]) -> None:
    short = without(raw, (name,)), cut(raw, [(name,), ("apikey",)], secrets)
    with (
        patch("contracts.jsontext.compact_members", _none),
        patch("contracts.cutting.compact_members", _none),
    ):
        long = without(raw, (name,)), cut(raw, [(name,), ("apikey",)], secrets)
    assert short == long
