"""One spelling of JSON: what the fast encoder writes is what every other language writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.compact import compact_json, sorted_json
from contracts.cuttext import CutText
from contracts.jsontext import BigNumber

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
VALUES = st.recursive(
    st.one_of(ANY_TEXT, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(ANY_TEXT, inner, max_size=4)),
    max_leaves=12,
)


def _as_javascript(text: str) -> bytes:
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text).encode()


@given(VALUES)
def test_both_spellings_are_those_of_javascript(value: object) -> None:
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert compact_json(value) == _as_javascript(plain)
    ordered = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert sorted_json(value) == _as_javascript(ordered)


def test_every_character_is_escaped_as_javascript_does() -> None:
    text = "".join(map(chr, range(0x300))) + "\u2028\u2029\ufeff😀"
    assert compact_json([text]) == json.dumps([text], ensure_ascii=False).encode()


@pytest.mark.parametrize("beside", ["plain", "\ud83d"])
def test_a_number_too_long_is_written_and_a_text_that_was_cut_out_never_is(beside: str) -> None:
    """A mark in an identity would make another fact of each copy."""
    assert compact_json([beside, BigNumber("1e400")]) == compact_json([beside, "1e400"])
    with pytest.raises(TypeError):
        compact_json([beside, CutText("$blob:mark", sha256="ab", bytes_total=1)])
