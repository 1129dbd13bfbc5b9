"""Each row of the contract's table of answers (§1), from a real socket to a real row."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import cast

import httpx
import pytest
import pytest_asyncio

from asgi.server import HttpServer
from asgi.types import AsgiApp
from contracts.envelope import BATCH_PATH, EVENT_PATH, PROBLEM_TOO_LARGE
from contracts.signing import sign
from ingest.app import create_app
from tests.ingest.backend import PAYLOAD, SECRET, Backend, an_id, backend, event, signed
from tests.support.postgres import PgServer, fresh_database

PROBLEM = "application/problem+json"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def b(pg_server: PgServer, migrated_template: str) -> AsyncIterator[Backend]:
    """One backend for the tests that need no settings of their own."""
    async with fresh_database(pg_server, migrated_template) as dsn, backend(dsn) as running:
        yield running


async def test_an_event_is_stored_once_and_then_a_duplicate(b: Backend) -> None:
    event_id, body = an_id(), event()
    first = await b.post(event_id, body)
    second = await b.post(event_id, body)
    assert (first.status_code, first.json()) == (201, {"status": "stored", "event_id": event_id})
    assert (second.status_code, second.json()) == (200, {"status": "duplicate", "event_id": event_id})
    row = await b.last_event()
    assert row["event_id"] == event_id
    assert row["payload"] == PAYLOAD
    assert row["type"] == "messages.upsert"
    assert row["chat_jid"] == "5511900000001@s.whatsapp.net"


async def test_a_sender_that_knows_only_three_members_and_two_headers_is_served(b: Backend) -> None:
    """The signature is made here without our own code, as another project would make it."""
    event_id = an_id()
    body = b'{ "type" : "call", "chat_jid": null, "payload": [1, 1.0, "\\u001B\xc3\xa7"] }\n'
    mac = hmac.new(SECRET, event_id.encode() + b"." + body, hashlib.sha256).hexdigest()
    answer = await b.client.post(
        EVENT_PATH, content=body, headers={"X-Event-Id": event_id, "X-Signature": mac}
    )
    assert answer.status_code == 201
    row = await b.last_event()
    assert row["payload"] == [1, 1.0, "\x1bç"]
    optional = (
        "chat_jid",
        "gateway",
        "scope",
        "kind",
        "digest",
        "flags",
        "envelope",
        "sanitized",
        "redacted",
    )
    assert [row[name] for name in optional] == [None] * len(optional)


async def test_optional_members_are_columns(b: Backend) -> None:
    body = event(
        instance="vendas", gateway="evolution", scope="acme", channel="webhook", kind="message",
        occurred_at="2026-05-01T12:00:00Z", occurred_from="message", captured_at="2026-05-01T12:00:01+00:00",
        digest="ab" * 16, flags=["time_doubtful", 'a "quoted\\ one, with a comma'], reader_error="odd",
        envelope={"server_url": "x"}, redacted=["/apikey"], something_new={"ignored": True},
    )  # fmt: skip
    assert (await b.post(an_id(), body, **{"X-Collector": "edge-1"})).status_code == 201
    row = await b.last_event()
    assert [row[name] for name in ("instance", "gateway", "scope", "channel", "kind")] == [
        "vendas", "evolution", "acme", "webhook", "message",
    ]  # fmt: skip
    assert row["occurred_at"].isoformat() == "2026-05-01T12:00:00+00:00"
    assert row["captured_at"].isoformat() == "2026-05-01T12:00:01+00:00"
    assert row["occurred_from"] == "message"
    assert row["digest"] == b"\xab" * 16
    assert row["flags"] == ["time_doubtful", 'a "quoted\\ one, with a comma']
    assert row["reader_error"] == "odd"
    assert json.loads(row["envelope"]) == {"server_url": "x"}
    assert row["redacted"] == ["/apikey"]
    assert row["collector"] == "edge-1"


async def test_an_optional_json_member_that_is_null_is_sql_null(b: Backend) -> None:
    event_id = an_id()
    assert (await b.post(event_id, event(envelope=None))).status_code == 201
    found = await b.fetch(
        "SELECT 1 FROM lake.whatsapp_event_logs WHERE event_id = $1 AND envelope IS NULL", event_id
    )
    assert len(found) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b'{"a":1,}', b"\xff\xfe", event()[:-1], event().decode().encode("utf-16"), b"null x", b"type=text"],
    ids=["empty", "comma", "bytes", "truncated", "utf-16", "garbage", "form"],
)
async def test_400_for_what_is_no_json(b: Backend, body: bytes) -> None:
    before = await b.count()
    answer = await b.post(an_id(), body)
    assert (answer.status_code, answer.headers["content-type"]) == (400, PROBLEM)
    assert "At byte" in answer.json()["detail"]
    assert await b.count() == before


async def test_a_byte_order_mark_is_tolerated(b: Backend) -> None:
    assert (await b.post(an_id(), b"\xef\xbb\xbf" + event())).status_code == 201


@pytest.mark.parametrize("event_id", ["not-a-uuid", "3EB0AA", "{" + "0" * 36 + "}", "0" * 32])
async def test_400_for_an_event_id_that_is_no_uuid(b: Backend, event_id: str) -> None:
    answer = await b.post(event_id, event())
    assert (answer.status_code, answer.headers["content-type"]) == (400, PROBLEM)
    assert "X-Event-Id" in answer.json()["detail"]


async def test_400_for_a_missing_event_id(b: Backend) -> None:
    body = event()
    headers = {"X-Signature": sign(SECRET, an_id(), body)}
    assert (await b.client.post(EVENT_PATH, content=body, headers=headers)).status_code == 400


async def test_an_upper_case_event_id_is_the_same_event(b: Backend) -> None:
    event_id = an_id()
    assert (await b.post(event_id.upper(), event())).json() == {"status": "stored", "event_id": event_id}
    assert (await b.post(event_id, event())).status_code == 200


RIGHT = sign(SECRET, "00000000-0000-5000-8000-000000000001", event())
HOSTILE = {
    "absent": [],
    "empty": [b""],
    "short": [RIGHT[:-1].encode()],
    "long": [RIGHT.encode() + b"00"],
    "huge": [b"a" * 30_000],
    "not hex": [b"z" * 64],
    "not ascii": ["ñ".encode() * 32],
    "not utf-8": [b"\xff\xfe" * 32],
    "other secret": [sign(b"another", "00000000-0000-5000-8000-000000000001", event()).encode()],
    "other body": [sign(SECRET, "00000000-0000-5000-8000-000000000001", event() + b" ").encode()],
    "twice": [RIGHT.encode(), RIGHT.encode()],
}


@pytest.mark.parametrize("values", HOSTILE.values(), ids=HOSTILE.keys())
async def test_401_for_every_fault_of_the_signature_alike(b: Backend, values: list[bytes]) -> None:
    before = await b.count()
    headers = [(b"X-Event-Id", b"00000000-0000-5000-8000-000000000001")]
    headers += [(b"X-Signature", value) for value in values]
    answer = await b.client.post(EVENT_PATH, content=event(), headers=headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == PROBLEM
    assert "detail" not in answer.json()
    assert await b.count() == before


@pytest.mark.parametrize("value", [b"\xff\xfe", b"a" * 30_000, b"%00", b"\xed\xa0\x80", b"'; DROP TABLE"])
@pytest.mark.parametrize("name", [b"X-Event-Id", b"X-Signature", b"X-Collector", b"Content-Encoding"])
async def test_a_hostile_header_never_gives_500(b: Backend, name: bytes, value: bytes) -> None:
    headers = {b"X-Event-Id": an_id().encode(), b"X-Signature": b"0" * 64, name: value}
    answer = await b.client.post(EVENT_PATH, content=event(), headers=list(headers.items()))
    assert answer.status_code == 401


async def test_every_secret_of_the_list_is_accepted(dsn: str) -> None:
    async with backend(dsn, secrets=(b"the new one", SECRET)) as b:
        assert (await b.post(an_id(), event())).status_code == 201


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:10]) + gzip.compress(body[10:])),
        ("deflate", zlib.compress),
        ("deflate", lambda body: zlib.compress(body)[2:-4]),
        ("identity", bytes),
    ],
    ids=["gzip", "GZIP", "two members", "zlib", "raw", "identity"],
)
async def test_the_signature_is_over_the_bytes_as_received_and_they_are_inflated(
    b: Backend, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    answer = await b.post(an_id(), pack(event()), **{"Content-Encoding": encoding})
    assert answer.status_code == 201
    assert (await b.last_event())["payload"] == PAYLOAD
    assert b.service.doors.budget.bytes_used == 0


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", gzip.compress(event())[:-9], 400),
        ("gzip", b"not gzip at all", 400),
        ("gzip", gzip.compress(event()) + b"garbage", 400),
        ("gzip", b"", 400),
        ("gzip", gzip.compress(b"") * 100, 400),
        ("br", event(), 415),
        ("gzip, gzip", event(), 415),
    ],
    ids=["cut", "not gzip", "tail", "empty", "members", "brotli", "twice"],
)
async def test_what_cannot_be_inflated_is_answered(
    b: Backend, encoding: str, body: bytes, status: int
) -> None:
    before = await b.count()
    answer = await b.post(an_id(), body, **{"Content-Encoding": encoding})
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert b.service.doors.budget.bytes_used == 0
    assert await b.count() == before


async def test_a_bomb_is_stopped_at_the_limit(dsn: str) -> None:
    async with backend(dsn, body_bytes_max=2_000_000, bodies_bytes_max=2_500_000) as b:
        for encoding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
            answer = await b.post(an_id(), pack(b"[" * 100_000_000), **{"Content-Encoding": encoding})
            assert (answer.status_code, answer.json()["type"]) == (413, PROBLEM_TOO_LARGE)
            assert b.service.doors.budget.bytes_used == 0


async def test_413_is_of_our_own_type_and_names_the_limit(dsn: str) -> None:
    async with backend(dsn, body_bytes_max=100_000) as b:
        answer = await b.post(an_id(), b"x" * 100_001)
        assert answer.status_code == 413
        assert answer.json()["type"] == PROBLEM_TOO_LARGE
        assert "100000" in answer.json()["detail"]
        assert (await b.post(an_id(), event())).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'"text"',
        b"{}",
        b'{"chat_jid":null,"payload":{}}',
        b'{"type":"","payload":{}}',
        b'{"type":5,"payload":{}}',
        b'{"type":"call"}',
        event(type="t" * 101),
        event(payload=None),
        event(payload="text"),
        event(payload=5),
        event(chat_jid=5),
        event(digest="zz"),
        event(digest="ab"),
        event(occurred_at="yesterday"),
        event(occurred_at="2026-05-01T12:00:00"),
        event(type="\x00"),
    ],
)
async def test_422_for_the_wrong_shape(b: Backend, body: bytes) -> None:
    before = await b.count()
    answer = await b.post(an_id(), body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, PROBLEM)
    assert answer.json()["detail"]
    assert await b.count() == before


async def test_429_over_the_rate_with_the_time_to_wait(dsn: str) -> None:
    async with backend(dsn, rate_events_per_s=0.5, rate_burst=2) as b:
        statuses = [(await b.post(an_id(), event(), **{"X-Collector": "busy"})).status_code for _ in range(3)]
        assert statuses == [201, 201, 429]
        refused = await b.post(an_id(), event(), **{"X-Collector": "busy"})
        assert 1 <= int(refused.headers["retry-after"]) <= 2
        assert (await b.post(an_id(), event(), **{"X-Collector": "other"})).status_code == 201
        assert (await b.post(an_id(), event())).status_code == 201


async def test_503_when_too_many_bytes_are_in_flight(dsn: str) -> None:
    async with backend(dsn, body_bytes_max=1_000_000, bodies_bytes_max=1_000_000) as b:
        b.service.doors.budget.take(900_000)
        answer = await b.post(an_id(), event(payload={"t": "x" * 200_000}))
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        b.service.doors.budget.give(900_000)
        assert (await b.post(an_id(), event())).status_code == 201


async def test_twenty_equal_posts_at_once_are_one_row(b: Backend) -> None:
    event_id, body = an_id(), event()
    answers = await asyncio.gather(*[b.post(event_id, body) for _ in range(20)])
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len(await b.fetch("SELECT 1 FROM lake.whatsapp_event_logs WHERE event_id = $1", event_id)) == 1


async def test_only_post_is_served(b: Backend) -> None:
    answer = await b.client.get(EVENT_PATH)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    answer = await b.client.post("/healthz")
    assert (answer.status_code, answer.headers["content-type"]) == (405, PROBLEM)
    assert "POST" not in answer.headers["allow"]
    assert (await b.client.get("/nowhere")).headers["content-type"] == PROBLEM


NASTY = {
    "nul": (b'{"a\\u0000":"x\\u0000y","C":"\\\\u0000"}', {"a": "xy", "C": "\\u0000"}),
    "surrogate": (b'{"a":"\\ud83d","b":"\\ud83d\\ude00"}', {"a": "�", "b": "😀"}),
    "utf-8": (b'{"a":"\xff"}', {"a": "�"}),
    "nan": (b'{"a":NaN,"b":-Infinity}', {"a": "NaN", "b": "-Infinity"}),
    "number": (b'{"a":1e200000}', {"a": "1e200000"}),
    "digits": (b'{"a":' + b"9" * 300 + b"}", {"a": int("9" * 300)}),
}


@pytest.mark.parametrize(("payload", "stored"), NASTY.values(), ids=NASTY.keys())
async def test_anything_that_is_json_is_stored(b: Backend, payload: bytes, stored: object) -> None:
    body = b'{"type":"x","chat_jid":"a\\u0000b","envelope":' + payload + b',"payload":' + payload + b"}"
    assert (await b.post(an_id(), body)).status_code == 201
    row = await b.last_event()
    assert row["payload"] == stored
    assert json.loads(row["envelope"]) == stored
    assert row["chat_jid"] == "ab"
    assert "/chat_jid" in row["sanitized"]


async def test_twenty_thousand_levels_are_stored(b: Backend) -> None:
    body = b'{"type":"x","chat_jid":null,"payload":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    assert (await b.post(an_id(), body)).status_code == 201
    row = await b.last_event()
    assert row["sanitized"]


async def test_a_body_that_is_repaired_off_the_loop(b: Backend) -> None:
    body = event(payload={"t": "x" * 600_000, "n": "\x00"})
    assert (await b.post(an_id(), body)).status_code == 201
    row = await b.last_event()
    assert row["payload"]["n"] == ""


async def test_the_framework_alone_serves_the_hot_paths_too(b: Backend) -> None:
    app = create_app(b.service.config, doors=b.service.doors, desk=b.service.desk, metrics=b.service.metrics)
    server = HttpServer(cast("AsgiApp", app))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{await server.start()}") as client:
        event_id, body = an_id(), event()
        for path, status in ((EVENT_PATH, 201), (EVENT_PATH + "/", 200), (BATCH_PATH, 200)):
            answer = await client.post(path, content=body, headers=signed(event_id, body))
            assert answer.status_code == status
    await server.stop(1)
