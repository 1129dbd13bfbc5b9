"""Sanitizing by example: values and names are repaired, clean bytes pass untouched, no bomb goes off."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.jsonpointer import POINTER_CHARS_MAX, POINTERS_MAX
from contracts.jsontext import NotJson
from contracts.sanitize import DEPTH_MAX, Sanitized, clean_text, needs_repair, sanitize


@pytest.mark.parametrize(
    ("raw", "text", "paths"),
    [
        (rb'{"t":"C:\\u0000","n":"a\u0000b"}', r'{"t":"C:\\u0000","n":"ab"}', ("/n",)),
        (rb'["\ud83d","\ude00\ud83d","\ud83d\ude00"]', '["�","��","\\ud83d\\ude00"]', ("/0", "/1")),
        (b'["half \xf0\x9f", "\xed\xa0\x80"]', '["half ��", "���"]', ("/0", "/1")),
        (b'{"x":NaN,"y":[-Infinity]}', '{"x":"NaN","y":["-Infinity"]}', ("/x", "/y/0")),
        (b'{"x":1e200000, "y":1e400}', '{"x":"1e200000", "y":1e400}', ("/x",)),
        (b'["a\tb\x01"]', r'["a\tb\u0001"]', ()),
        (b'["a\x00b"]', '["ab"]', ("/0",)),
        (b'\xef\xbb\xbf{"a":1}', '{"a":1}', ()),
        (rb'{"\u0000":{"a/b~c":["\u0000"]}}', '{"":{"a/b~c":[""]}}', ("/", "//a~1b~0c/0")),
    ],
)
def test_what_jsonb_refuses_is_repaired_and_listed(raw: bytes, text: str, paths: tuple[str, ...]) -> None:
    assert sanitize(raw) == Sanitized(json=text, paths=paths)


@pytest.mark.parametrize(
    "members",
    [
        ['"a":1', r'"a\u0000":2', r'"\u0000a":3', r'"a~2":4'],
        [r'"\u0000a":3', r'"a\u0000":2', r'"a~2":4', '"a":1'],
    ],
)
def test_names_that_collide_step_aside_in_a_fixed_order(members: list[str]) -> None:
    clean = sanitize(("{" + ",".join(members) + "}").encode())
    assert json.loads(clean.json) == {"a": 1, "a~2": 4, "a~3": 3, "a~4": 2}
    assert set(clean.paths) == {"/a~03", "/a~04"}


def test_a_hundred_thousand_names_that_collide_take_seconds_and_not_hours() -> None:
    count = 100_000
    names = (b'"\\ud%03x\\ud%03x":1' % (0xC00 + n // 2048, 0x800 + n % 2048) for n in range(count))
    began_s = time.process_time()
    stored = json.loads(sanitize(b"{" + b",".join(names) + b"}").json)
    assert time.process_time() - began_s < 30
    assert len(stored) == count
    assert {"\ufffd\ufffd", "\ufffd\ufffd~2", f"\ufffd\ufffd~{count}"} <= stored.keys()


def test_a_cleaned_name_that_collides_with_nothing_keeps_its_clean_form() -> None:
    assert json.loads(sanitize(rb'{"a\u0000":1,"b\ud800":2}').json) == {"a": 1, "b�": 2}


def test_the_last_of_doubled_members_still_wins() -> None:
    assert json.loads(sanitize(rb'{"a\u0000":1,"a\u0000":2,"a":0}').json) == {"a": 0, "a~2": 2}


def test_what_is_too_deep_becomes_one_string_of_its_json() -> None:
    raw = b"[" * DEPTH_MAX + b'{"a":["\xff"]}, 2' + b"]" * DEPTH_MAX
    clean = sanitize(raw)
    assert (
        clean.json
        == "[" * DEPTH_MAX + json.dumps('{"a":["�"]}', ensure_ascii=False) + ", 2" + "]" * DEPTH_MAX
    )
    assert clean.paths == ("/0" * DEPTH_MAX,)
    long = sanitize(b'{"' + b"k" * 1_000_000 + b'":' + b"[" * 50 + rb'"\u0000"' + b"]" * 50 + b"}")
    assert len(long.paths[0]) <= POINTER_CHARS_MAX + 1
    assert sanitize(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX).paths == ()


@pytest.mark.parametrize("raw", [b'{"a":NaN,}', b'["\\u0000"', b"[NaN]]", b'{"\xff" 1}', b"\xff"])
def test_what_is_no_json_is_told_with_its_place(raw: bytes) -> None:
    with pytest.raises(NotJson) as told:
        sanitize(raw)
    assert 0 <= told.value.position <= len(raw)


@given(
    st.recursive(
        st.one_of(
            st.text(),
            st.integers(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.booleans(),
            st.none(),
        ),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    ),
    st.booleans(),
    st.sampled_from([None, 2]),
)
def test_clean_json_passes_byte_for_byte(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    if "\0" in text or "\\u0000" in text:
        return
    assert sanitize(text.encode()) == Sanitized(json=text)


@given(st.text(st.characters(exclude_categories=())))
def test_cleaned_text_has_utf8_and_no_nul(text: str) -> None:
    clean = clean_text(text)
    assert "\0" not in clean
    assert clean.encode().decode() == clean
    assert clean_text(clean) == clean


def test_the_usual_body_is_not_decoded() -> None:
    body = json.dumps(
        {"text": "olá 😀, BaNaNa (Infinity)", "sha": "1e12345678", "list": [[1, 2.5e-7]] * 60}
    ).encode()
    assert not needs_repair(body)
    assert not needs_repair(json.dumps({"deep": "[" * 500}).encode())


@pytest.mark.parametrize(
    "bomb",
    [
        b"[" * 1_000_000 + b"]" * 1_000_000,
        b'{"a":' * 300_000 + b"1" + b"}" * 300_000,
        b'["' + rb"\u0000" * 300_000 + b'"]',
        b"[" + b"NaN," * 300_000 + b"1]",
        b'["' + b"\\\\" * 500_000 + rb"\u0000" + b'"]',
        b"[" + b"9" * 2_000_000 + b"]",
        b'["' + b"\xff" * 2_000_000 + b'"]',
    ],
    ids=["brackets", "objects", "nul", "nan", "backslashes", "digits", "bad bytes"],
)
def test_a_bomb_of_two_megabytes_is_repaired_in_bounded_time(bomb: bytes) -> None:
    started = time.process_time()
    clean = sanitize(bomb)
    assert time.process_time() - started < 10
    assert len(clean.paths) <= POINTERS_MAX
    json.loads(clean.json, parse_int=str)
