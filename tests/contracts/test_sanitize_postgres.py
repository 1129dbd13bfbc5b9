"""The law of sanitizing, against a real server: what it lets through jsonb stores and reads back equal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from decimal import Decimal

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.jsontext import NotJson, decode
from contracts.sanitize import Sanitized, sanitize
from tests.support.postgres import PgServer

PIECES = st.sampled_from(
    [
        rb"text",
        rb"\u0000",
        rb"\\u0000",
        rb"C:\\\\u0000",
        rb"\\\u0000",
        rb"\ud83d",
        rb"\udc00\ud83d",
        rb"\ud83d\ude00",
        rb"\uD83D\uDE00",
        rb"\ud83d\ud83d\ude00",
        rb"\\ud83d",
        rb"\n\/\"",
        "ção 😀".encode(),
        "\ufeff\u2028".encode(),
        b"\xff",
        b"\xed\xa0\x80",
        b"\xf0\x9f",
        b"\x00",
        b"\t",
        b"\x7f",
        b"[{,:NaN 1e99999",
    ]
)
STRINGS = st.lists(PIECES, max_size=4).map(lambda pieces: b'"' + b"".join(pieces) + b'"')
KEYS = st.sampled_from(
    [
        rb'"a"',
        rb'"a\u0000"',
        rb'"\u0000a"',
        rb'"a~2"',
        rb'"a~3"',
        rb'"a\ud800"',
        b'"a\xff"',
        '"a\ufffd"'.encode(),
        b'""',
    ]
)
LONG_DIGITS = [b"9" * 5000, b"1" + b"0" * 131_071, b"1" + b"0" * 131_072, b"7" * 200_000, b"-" + b"1" * 1000]
EDGES = [
    *(b"0", b"-0", b"1.50", b"-0.0e5", b"12345678901234567890123", b"1e400", b"-1e400", b"1E+0000000400"),
    *(b"1e200000", b"1e-200000", b"1e131071", b"9.99e131071", b"1e131072", b"0.1e131072"),
    *(b"1e-16383", b"1e-16384", b"1.5e-16383", b"0e-16383", b"0e-16384", b"0e99999", b"0.0e999999"),
    *(b"1e9999999999", b"1e-9999999999", b"NaN", b"Infinity", b"-Infinity"),
    *(b"0." + b"0" * 16_382 + b"1", b"0." + b"0" * 16_383 + b"1", b"0." + b"0" * 20_000 + b"1e20000"),
    *(b"1" + b"0" * 131_072 + b".5e-10", b"123456789" * 100 + b".5e-15000", b"0." + b"1" * 1000 + b"e999"),
]
NUMBERS = st.sampled_from([*EDGES, *LONG_DIGITS, b"0e9999999999"])
BLANKS = st.sampled_from([b"", b"", b" ", b"\r\n\t"])


def _array(items: list[bytes], blank: bytes) -> bytes:
    return b"[" + blank + (blank + b"," + blank).join(items) + b"]"


def _object(members: list[tuple[bytes, bytes]], blank: bytes) -> bytes:
    return b"{" + blank + b",".join(key + blank + b":" + value for key, value in members) + b"}"


def _nested(value: bytes, levels: int, member: bool) -> bytes:
    if member:
        return b'{"a\\u0000":' * levels + value + b"}" * levels
    return b"[" * levels + value + b"]" * levels


def _containers(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.builds(_array, st.lists(values, max_size=4), BLANKS),
        st.builds(_object, st.lists(st.tuples(KEYS, values), max_size=6), BLANKS),
        st.builds(_nested, values, st.sampled_from([1, 100, 127, 128, 129, 20_000]), st.booleans()),
    )


SCALARS = st.one_of(STRINGS, NUMBERS, st.sampled_from([b"true", b"false", b"null"]))
DOCUMENTS = st.recursive(SCALARS, _containers, max_leaves=12)


class Server:
    """One connection, asked from tests that are not async."""

    def __init__(self, runner: asyncio.Runner, connection: asyncpg.Connection) -> None:
        self._runner = runner
        self._connection = connection

    def read_back(self, text: str) -> object:
        """What jsonb makes of the text; raises what the server refuses it with."""
        stored = self._runner.run(self._connection.fetchval("SELECT ($1::text)::jsonb::text", text))
        return _parsed(stored)

    def accepts(self, text: str) -> bool:
        try:
            self.read_back(text)
        except asyncpg.PostgresError:
            return False
        return True


@pytest.fixture(scope="module")
def server(pg_server: PgServer) -> Iterator[Server]:
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(pg_server.dsn))
        yield Server(runner, connection)
        runner.run(connection.close())


def _parsed(text: str) -> object:
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


@settings(max_examples=250, suppress_health_check=list(HealthCheck))
@given(raw=DOCUMENTS)
def test_what_sanitize_lets_through_postgres_stores_and_reads_back_equal(server: Server, raw: bytes) -> None:
    clean = sanitize(raw)
    assert server.read_back(clean.json) == _parsed(clean.json)
    assert sanitize(clean.json.encode()) == Sanitized(json=clean.json)


BODY = (
    b'{"event":"messages.upsert","data":{"key":{"id":"3EB0","fromMe":false},"message":{"conversation":"ol\\u00e1'
    b' \\ud83d\\ude00 \\"x\\""},"n":[1.50,-2e-7,{"a":null}]}}'
)
SPLINTERS = st.sampled_from(
    [
        *(
            rb"\u0000",
            rb"\ud83d",
            rb"\udc00",
            rb"\\",
            b'"',
            b"\\",
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b"\x00",
            b"\xff",
        ),
        *(
            b"\n",
            b"NaN",
            b"1e99999",
            b"0",
            b"-",
            b".",
            b"e",
            b"u",
            b"\xed\xa0\x80",
            b"1" * 1100,
            b"null",
            b" ",
            b"",
        ),
    ]
)


@settings(max_examples=600, suppress_health_check=list(HealthCheck))
@given(
    edits=st.lists(st.tuples(st.integers(0, len(BODY)), st.integers(0, 3), SPLINTERS), min_size=1, max_size=3)
)
def test_whatever_the_ladder_takes_of_a_damaged_body_postgres_stores(
    server: Server, edits: list[tuple[int, int, bytes]]
) -> None:
    raw = BODY
    for position, length, splinter in edits:
        raw = raw[:position] + splinter + raw[position + length :]
    try:
        decode(raw)
    except NotJson:
        return
    clean = sanitize(raw)
    assert server.read_back(clean.json) == _parsed(clean.json)


@pytest.mark.parametrize("number", [*map(bytes.decode, EDGES + LONG_DIGITS)], ids=lambda number: number[:12])
def test_a_number_becomes_a_string_exactly_when_jsonb_cannot_hold_it(server: Server, number: str) -> None:
    expected = number if server.accepts(number) else json.dumps(number)
    assert sanitize(number.encode()).json == expected


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    zeros=st.integers(0, 131_080),
    fraction=st.integers(0, 16_390),
    exponent=st.one_of(st.integers(-16_400, 131_080), st.sampled_from([-16_383, -16_384, 131_071, 131_072])),
    digit=st.sampled_from("07"),
)
def test_the_numeric_limits_are_those_of_the_server(
    server: Server, zeros: int, fraction: int, exponent: int, digit: str
) -> None:
    whole = digit if digit == "0" else digit + "0" * zeros
    text = whole + ("." + digit * fraction if fraction else "") + f"e{exponent}"
    assert (sanitize(text.encode()).json == text) == server.accepts(text)


def test_a_body_that_only_looks_odd_is_passed_on_as_it_is(server: Server) -> None:
    raw = b'{"a": "C:\\\\u0000 \\ud83d\\ude00 [NaN]", "n": [1.0, 1e400, 1e00007]}\n'
    assert sanitize(raw).json == raw.decode()
    assert server.read_back(raw.decode()) == {
        "a": "C:\\u0000 😀 [NaN]",
        "n": [Decimal(1), Decimal("1e400"), Decimal("1e7")],
    }
