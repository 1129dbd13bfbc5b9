"""Secrets go by byte span wherever they hide; every other byte stays as it was received."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.cutting import cut, cut_members
from contracts.jsonpath import joined
from contracts.jsontext import decode

SECRET = 'K3y/"é😀\\'
ENVELOPE = (
    b'{"event":"qrcode.updated", "data":{"qrcode":{"code":"2@abc","base64":"QQ=="},"n":1.0 ,'
    b'"big":12345678901234567890.10,"e":"\\u00e7\\/"},"apikey":"SECRET-123"  }\n'
)


def test_exact_paths_become_null_and_the_rest_stays() -> None:
    body, pointers = cut(ENVELOPE, [("apikey",), ("data", "qrcode"), ("data", "pairingCode"), ("api_key",)])
    assert body == ENVELOPE.replace(b'{"code":"2@abc","base64":"QQ=="}', b"null").replace(
        b'"SECRET-123"', b"null"
    )
    assert pointers == ("/data/qrcode", "/apikey")


@pytest.mark.parametrize("blank", ["", " "])
def test_a_compact_body_and_a_spaced_one_are_cut_alike(blank: str) -> None:
    colon, comma = f":{blank}", f",{blank}"
    members = [
        '"n":1.0',
        '"apikey":"k"',
        '"big":12345678901234567890.10',
        '"api_key":{"a":[1]}',
        '"a":null',
    ]
    raw = ("{" + comma.join(member.replace(":", colon, 1) for member in members) + "}").encode()
    body, pointers = cut(raw, [("api_key",), ("apikey",), ("no",)])
    expected = raw.replace(b'"k"', b"null").replace(b'{"a":[1]}', b"null")
    assert (body, pointers) == (expected, ("/apikey", "/api_key"))


def test_a_null_is_nothing_to_cut() -> None:
    assert cut(b'{"apikey":null}', [("apikey",)]) == (b'{"apikey":null}', ())


def test_a_name_is_cut_only_at_its_path() -> None:
    raw = b'{"data":{"message":{"apikey":"mine","qrcode":{"code":"hello"}}},"apikey":"x"}'
    body, pointers = cut(raw, [("apikey",), ("data", "qrcode", "code")])
    assert body == raw.replace(b'"apikey":"x"', b'"apikey":null')
    assert pointers == ("/apikey",)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"apikey":"a","apikey":"b"}',
        b'{"api\\u006bey":"a","apikey":"b"}',
        b'{"\\u0061pikey" : {"x":["]}"]}, "y":1}',
        b'{"apikey":[1,{"a":"}"}],"y":"\\ud83d"}',
    ],
)
def test_doubled_and_escaped_names_are_found(raw: bytes) -> None:
    body, pointers = cut(raw, [("apikey",)])
    received = decode(raw)
    assert isinstance(received, dict)
    assert decode(body) == {**received, "apikey": None}
    assert b'"a"' not in body
    assert b'"b"' not in body
    assert pointers == ("/apikey",)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\n", "é", "😀", "\ud83d", "", "a/b"])
def test_any_name_is_found_in_every_spelling(name: str) -> None:
    spellings = [json.dumps(name), json.dumps(name).replace("/", "\\/")]
    if name != "\ud83d":
        spellings.append(json.dumps(name, ensure_ascii=False))
    for spelling in spellings:
        raw = f'{{"x":{{{spelling}:1}}}}'.encode()
        assert cut(raw, [("x", name)])[0] == raw.replace(b":1", b":null")


def test_a_name_that_is_no_utf8_is_found() -> None:
    assert cut(b'{"\xff":1}', [("\udcff",)])[0] == b'{"\xff":null}'


def test_the_longer_of_two_paths_lies_inside_the_shorter() -> None:
    assert cut(b'{"a":{"b":1},"c":2}', [("a", "b"), ("a",)]) == (b'{"a":null,"c":2}', ("/a",))


def _escaped(text: str, how: str) -> bytes:
    match how:
        case "raw":
            return json.dumps(text, ensure_ascii=False).encode()
        case "ascii":
            return json.dumps(text).encode()
        case "slash":
            return json.dumps(text).replace("/", "\\/").encode()
    units = text.encode("utf-16-be")
    pairs = (units[index : index + 2].hex() for index in range(0, len(units), 2))
    return ('"' + "".join(f"\\u{pair.upper() if how == 'upper' else pair}" for pair in pairs) + '"').encode()


@pytest.mark.parametrize("how", ["raw", "ascii", "slash", "lower", "upper"])
@pytest.mark.parametrize("secret", [SECRET, "SECRET-123", "a/b", "ç", "\n"])
def test_a_value_equal_to_a_secret_goes_however_it_is_escaped(how: str, secret: str) -> None:
    raw = (
        b'{"deep":[1.0,{"x":' + _escaped(secret, how) + b',"y":"not ' + _escaped(secret, how)[1:-1] + b'"}]}'
    )
    body, pointers = cut(raw, [], [secret, "other"])
    assert body == raw.replace(b'"x":' + _escaped(secret, how), b'"x":null')
    assert pointers == ("/deep/1/x",)


def test_a_name_equal_to_a_secret_goes_too_also_from_the_pointers() -> None:
    raw = b'{"SECRET-123":{"a":"SECRET-123"},"b":["SECRET-123", 1]}'
    body, pointers = cut(raw, [], ["SECRET-123"])
    assert body == b'{"[redacted]":{"a":null},"b":[null, 1]}'
    assert pointers == ("/[redacted]", "/[redacted]/a", "/b/0")


def test_pointers_are_json_pointers() -> None:
    assert cut(b'{"a/b~c":[0,{"d":1}]}', [("a/b~c", 1, "d")])[1] == ("/a~1b~0c/1/d",)


@given(
    st.recursive(
        st.sampled_from(["S", "s", "T\\", "", 1, 2.5, None, True]),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("aSb"), inner, max_size=3)
        ),
    ),
    st.booleans(),
)
def test_no_secret_is_left_and_nothing_else_changes(value: object, escape: bool) -> None:
    raw = json.dumps(value, indent=1).encode()
    if escape:
        raw = raw.replace(b"S", b"\\u0053")
    body, pointers = cut(raw, [], ["S", "T\\", ""])

    def expected(value: object) -> object:
        if isinstance(value, dict):
            return {("[redacted]" if name == "S" else name): expected(item) for name, item in value.items()}
        if isinstance(value, list):
            return [expected(item) for item in value]
        return None if value in ("S", "T\\") else value

    assert decode(body) == expected(value)
    assert (body == raw) == (not pointers)


def test_many_cuts_are_all_made_and_a_hundred_are_listed() -> None:
    body, pointers = cut(b"[" + b'"S",' * 5000 + b"1]", [], ["S"])
    assert body == b"[" + b"null," * 5000 + b"1]"
    assert len(pointers) == 100


def test_a_body_without_either_is_handed_back_itself() -> None:
    raw = b'{"data":{"text":"\\u00e7 \\n"},"date_time":"x"}'
    assert cut(raw, [("apikey",), ("qrcode", "code")], ["SECRET-123"])[0] is raw


@pytest.mark.parametrize(
    "bomb",
    [
        b"[" * 1_000_000 + b'"S"' + b"]" * 1_000_000,
        b'["' + b"\\\\" * 1_000_000 + b'","S"]',
        b"[" + b'"x\\n",' * 300_000 + b'"S"]',
    ],
    ids=["brackets", "backslashes", "strings"],
)
def test_a_bomb_costs_no_more_than_its_length(bomb: bytes) -> None:
    body, pointers = cut(b'{"a":' + bomb + b',"apikey":1}', [("apikey",)])
    assert pointers == ("/apikey",)
    assert body.endswith(b',"apikey":null}')


@pytest.mark.parametrize(
    "bomb",
    [b'["' + b"\\\\" * 1_000_000 + b'","S"]', b"[" + b'"x\\n",' * 100_000 + b'"S"]'],
    ids=["backslashes", "strings"],
)
def test_a_secret_is_found_behind_a_bomb(bomb: bytes) -> None:
    body, _ = cut(bomb, [], ["S"])
    assert body.endswith(b",null]")


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "S", "ç", 'q"']),
        st.sampled_from(["S", "\u00e7", None, 1.5, {"a": None}, {"a": "S"}, ["S"]]),
    ),
    st.lists(st.sampled_from([("a",), ("b",), ("S",), ("ç",), ("a", "a"), ("b", 0)]), max_size=3),
    st.sampled_from([(), ("S",), ("ç",), ("a",), ("",)]),
    st.booleans(),
)
def test_members_are_cut_like_the_object_that_they_make(
    value: dict[str, object],
    paths: list[tuple[str | int, ...]],
    secrets: tuple[str, ...],
    ascii_only: bool,
) -> None:
    members = msgspec.json.decode(json.dumps(value, ensure_ascii=ascii_only), type=dict[str, msgspec.Raw])
    assert cut_members(members, paths, secrets) == cut(joined(members), paths, secrets)
