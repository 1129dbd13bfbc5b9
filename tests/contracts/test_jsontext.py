"""The ladder: what is JSON decodes the same on both rungs, exact bytes come out, nothing recurses."""

from __future__ import annotations

import contextlib
import json
import math
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.compact import compact_json
from contracts.events import Path
from contracts.jsontext import BigNumber, NotJson, decode, slice_at, slices_at, without

VALUES = st.recursive(
    st.one_of(
        st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=15,
)
SIZE = 300_000
HALVES = st.text(st.characters(exclude_categories=()), max_size=6)


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_both_rungs_decode_the_same(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert decode(text.encode()) == value
    lenient = decode(f"[NaN,{text}]".encode())
    assert isinstance(lenient, list)
    assert lenient[1] == value


@given(HALVES, HALVES)
def test_surrogates_decode_as_the_standard_library_does(key: str, text: str) -> None:
    raw = json.dumps({key: text}).encode()
    assert decode(raw) == json.loads(raw)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"1e400", BigNumber("1e400")),
        (b"-1E200000", BigNumber("-1E200000")),
        (b"9" * 5000, BigNumber("9" * 5000)),
        (b"12345678901234567890123", 12345678901234567890123),
        (b"9223372036854775808", 2**63),
        (b"18446744073709551616", 2**64),
        (b"[9007199254740993, NaN]", [9007199254740993, None]),
        (b"1e-400", 0.0),
        (b'"\\ud83d"', "\ud83d"),
        (b'"\\ude00\\ud83d"', "\ude00\ud83d"),
        (b'"\\ud83d\\ud83d\\ude00"', "\ud83d😀"),
        (b'{"\xff":"\xf0\x9f"}', {"\udcff": "\udcf0\udc9f"}),
        (b'{"a\\u0000":"\\u0000"}', {"a\0": "\0"}),
        (b'["a\tb\x00"]', ["a\tb\0"]),
        (b'\xef\xbb\xbf {"a":1}\r\n', {"a": 1}),
        (b'{"a":1,"a":"\\ud83d","a":2}', {"a": 2}),
        (rb'["\"\\\/\b\f\n\r\t\u00e9\ud800"]', ['"\\/\b\f\n\r\té\ud800']),
        (b"Infinity", math.inf),
        (b"[-Infinity,true,false,null,{},[]]", [-math.inf, True, False, None, {}, []]),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_what_gateways_write_in_spite_of_json(raw: bytes, value: Any) -> None:
    decoded = decode(raw)
    if isinstance(decoded, list) and isinstance(decoded[-1], float):
        decoded[-1] = None if math.isnan(decoded[-1]) else decoded[-1]
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(
    ("raw", "position"),
    [
        (b"", 0),
        (b" ", 0),
        (b'{"a":1,}', 7),
        (b"[1,]", 3),
        (b'{"a" 1}', 1),
        (b"{1:2}", 1),
        (b"[1 2]", 2),
        (b"[1}", 2),
        (b"[]]", 2),
        (b'{"a":[1', 7),
        (b'["abc', 1),
        (rb'["\x"]', 1),
        (rb'["\u12"]', 1),
        (b"01", 1),
        (b"1.", 1),
        (b"+1", 0),
        (b"nul", 0),
        (b"-NaN", 0),
        (b"'a'", 0),
        (b"\xff\xfe", 0),
        ('{"a":1}'.encode("utf-16"), 0),
        ('{"a":1}'.encode("utf-16-le"), 1),
        (b'{"a":\xff}', 5),
        (b"[NaN] x", 5),
        (b"\xef\xbb\xbf", 3),
    ],
)
def test_what_is_no_json_is_told_with_its_place(raw: bytes, position: int) -> None:
    with pytest.raises(NotJson) as told:
        decode(raw)
    assert told.value.position == position
    assert told.value.reason


@given(st.binary(max_size=40))
def test_any_bytes_decode_or_are_told(raw: bytes) -> None:
    with contextlib.suppress(NotJson):
        decode(raw)


def test_depth_is_no_limit_and_no_recursion() -> None:
    value = decode(b'[{"a":' * 100_000 + b"1" + b"}]" * 100_000)
    for _ in range(100_000):
        assert isinstance(value, list)
        value = value[0]["a"]
    assert value == 1


BODY = (
    b'\xef\xbb\xbf { "event" : "x", "data" : [ {"n": 1.0, "big": 12345678901234567890.10} , "\\u0041" ,[ ] ],'
    b' "nested":{"q":{"code":"2@"},"keep": 1e2 } }\n'
)
ODD = BODY.replace(b'"x"', b'"\\ud83d"')


@pytest.mark.parametrize("raw", [BODY, ODD], ids=["fast", "lenient"])
def test_slices_are_the_exact_bytes(raw: bytes) -> None:
    assert slice_at(raw, ("data", 0)) == b'{"n": 1.0, "big": 12345678901234567890.10}'
    assert slice_at(raw, ("data", 0, "n")) == b"1.0"
    assert slice_at(raw, ("data", 1)) == b'"\\u0041"'
    assert slice_at(raw, ("nested", "q")) == b'{"code":"2@"}'
    assert slice_at(raw, ()) == raw.removeprefix(b"\xef\xbb\xbf").strip()
    paths: list[Path] = [("data", 2), ("nested", "keep"), ("data",), ("data", 0, "big")]
    assert slices_at(raw, paths) == [slice_at(raw, path) for path in paths]


@pytest.mark.parametrize("raw", [BODY, ODD], ids=["fast", "lenient"])
@pytest.mark.parametrize("path", [("no",), ("data", 9), ("data", "n"), ("nested", 0), ("event", "x"), (0,)])
def test_a_path_that_is_not_there_is_a_lookup_error(raw: bytes, path: tuple[str | int, ...]) -> None:
    with pytest.raises(LookupError):
        slice_at(raw, path)
    assert without(raw, path) == raw


def test_of_doubled_members_the_last_is_the_value() -> None:
    assert slice_at(b'{"a":1,"a":2}', ("a",)) == b"2"
    assert slice_at(b'{"a":1,"a":"\\ud83d"}', ("a",)) == b'"\\ud83d"'
    assert without(b'{"a":1,"b":0,"a":2}', ("a",)) == b'{"b":0}'


@pytest.mark.parametrize(
    ("path", "left"),
    [
        (("a",), b'{"b": [1, 2 ], "c":{ }}'),
        (("b",), b'{ "a" :1.0 ,"c":{ }}'),
        (("c",), b'{ "a" :1.0 , "b": [1, 2 ]}'),
        (("b", 0), b'{ "a" :1.0 , "b": [2 ], "c":{ }}'),
        (("b", 1), b'{ "a" :1.0 , "b": [1], "c":{ }}'),
        ((), b"{}"),
    ],
)
def test_a_member_goes_with_its_comma_and_the_rest_stays(path: tuple[str | int, ...], left: bytes) -> None:
    assert without(b'{ "a" :1.0 , "b": [1, 2 ], "c":{ }}', path) == left


@given(
    st.dictionaries(st.text(max_size=3), VALUES, min_size=1, max_size=4),
    st.data(),
    st.sampled_from([None, 2]),
)
def test_slices_and_the_rest_make_the_whole(
    body: dict[str, object], data: st.DataObject, indent: int | None
) -> None:
    raw = json.dumps(body, indent=indent).encode()
    name = data.draw(st.sampled_from(sorted(body)))
    assert decode(slice_at(raw, (name,))) == body[name]
    assert decode(without(raw, (name,))) == {key: value for key, value in body.items() if key != name}


def test_a_slice_out_of_the_deep_needs_no_recursion() -> None:
    raw = b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b',"b":"here"}'
    assert slice_at(raw, ("b",)) == b'"here"'
    assert len(slice_at(raw, ("a",))) == 100_000
    assert without(raw, ("a",)) == b'{"b":"here"}'


def test_a_clean_body_takes_the_fast_rung() -> None:
    assert decode(BODY.removeprefix(b"\xef\xbb\xbf")) == msgspec.json.decode(
        BODY.removeprefix(b"\xef\xbb\xbf")
    )


@pytest.mark.parametrize("piece", [b"\xff", b"\\ud800", b"\\n", b"\xffa"])
def test_a_long_text_of_odd_pieces_costs_a_small_multiple_of_itself(piece: bytes) -> None:
    """A body may have tens of megabytes of them: an object for each piece would be gigabytes."""
    raw = b'["' + piece * (SIZE // len(piece)) + b'"]'
    tracemalloc.start()
    try:
        compact_json(decode(raw))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * SIZE
