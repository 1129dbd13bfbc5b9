"""What goes over the wire, and what every answer and every failure becomes (contract §1-§3)."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from asgi.answers import send_answer
from asgi.body import BodyBudget, read_body
from asgi.server import HttpServer
from asgi.types import Receive, Scope, Send
from collector.backend import FAILURES, Backend, failure_of
from collector.config import CollectorConfig, Limits
from collector.shipping import HttpTransport, batch_line
from contracts.envelope import PROBLEM_TOO_LARGE
from contracts.identity import batch_id
from outbox.record import Record
from outbox.transport import Answer
from outbox.verdict import TransportFailure
from tests.collector.scripted import SECRET, Reply, ScriptedBackend

TURNS_MAX = 14
"""Of the loop, within which a connection is made."""
ID = "0b7a9c1e-0000-5000-8000-00000000000"


def record(number: int = 1, body: bytes = b'{"type":"t","chat_jid":null,"payload":{}}') -> Record:
    return Record(
        rowid=number,
        id=f"{ID}{number}",
        digest=b"",
        body=body,
        label="",
        attempts=0,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        lease=1,
    )


def config(url: str, limits: Limits | None = None) -> CollectorConfig:
    return CollectorConfig(
        backend_url=url,
        secrets=(SECRET, b"the-next-secret"),
        data_folder=Path("unused"),
        name="c1",
        limits=limits or Limits(),
    )


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedBackend]:
    async with ScriptedBackend() as backend:
        yield backend


async def test_one_record_is_posted_as_the_contract_says(scripted: ScriptedBackend) -> None:
    async with Backend(config(scripted.url)) as backend:
        answer = await HttpTransport(backend).send([record()])
    request = scripted.requests[0]
    assert request.path == "/api/webhooks/whatsapp"
    assert request.body == record().body
    assert request.event_id == f"{ID}1"
    assert request.headers["x-collector"] == "c1"
    assert request.headers["content-type"] == "application/json"
    assert answer.status == 201
    assert answer.receipts[f"{ID}1"].status == "stored"


async def test_several_records_are_posted_as_a_batch_without_decoding_them(scripted: ScriptedBackend) -> None:
    odd = b'{"type":"t","payload":{"n":1.0,"big":12345678901234567890123}}'
    records = [record(1), record(2, odd)]
    async with Backend(config(scripted.url)) as backend:
        answer = await HttpTransport(backend).send(records)
    request = scripted.requests[0]
    assert request.path == "/api/webhooks/whatsapp/batch"
    assert request.headers["content-type"] == "application/x-ndjson"
    assert request.event_id == batch_id([f"{ID}1", f"{ID}2"])
    assert request.body.split(b"\n")[1] == b'{"event_id":"' + f"{ID}2".encode() + b'",' + odd[1:]
    assert {id_: receipt.status for id_, receipt in answer.receipts.items()} == {
        f"{ID}1": "stored",
        f"{ID}2": "stored",
    }


@given(
    st.dictionaries(st.text(), st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=5))
)
def test_a_line_is_one_line_and_says_the_same(value: dict[str, object]) -> None:
    body = json.dumps({"type": "t", "payload": value}, indent=1, ensure_ascii=False).encode(
        "utf-8", "replace"
    )
    line = batch_line(record(1, body))
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line) == {"event_id": f"{ID}1", **json.loads(body)}


async def test_receipts_are_matched_by_id_and_strangers_ignored(scripted: ScriptedBackend) -> None:
    lines = [
        {"event_id": f"{ID}2", "status": "rejected", "code": 422, "detail": "no type"},
        {"event_id": f"{ID}9", "status": "stored"},
        {"hello": "portal"},
    ]
    body = b"\n".join(json.dumps(line).encode() for line in lines) + b"\nnot json\n"
    scripted.script = lambda _request: Reply(200, body)
    async with Backend(config(scripted.url)) as backend:
        answer = await HttpTransport(backend).send([record(1), record(2)])
    assert list(answer.receipts) == [f"{ID}2"]
    assert (answer.receipts[f"{ID}2"].status, answer.receipts[f"{ID}2"].code) == ("rejected", "422")


async def test_a_portal_s_200_holds_no_receipt(scripted: ScriptedBackend) -> None:
    scripted.script = lambda _request: Reply(200, b"<html>log in</html>", content_type=b"text/html")
    async with Backend(config(scripted.url)) as backend:
        answer = await HttpTransport(backend).send([record()])
    assert (answer.status, dict(answer.receipts)) == (200, {})


async def test_only_our_own_413_blames_the_record(scripted: ScriptedBackend) -> None:
    async with Backend(config(scripted.url)) as backend:
        scripted.script = lambda _request: Reply(413, b"<html>nginx</html>")
        assert not (await HttpTransport(backend).send([record()])).too_large
        problem = json.dumps({"type": PROBLEM_TOO_LARGE, "title": "Too large", "detail": "limit 1"}).encode()
        scripted.script = lambda _request: Reply(413, problem, content_type=b"application/problem+json")
        answer = await HttpTransport(backend).send([record()])
    assert answer.too_large
    assert answer.reason == "413 body-too-large"
    assert answer.detail == "limit 1"


async def test_a_redirect_is_an_answer_and_is_not_followed(scripted: ScriptedBackend) -> None:
    scripted.script = lambda _request: Reply(307, headers=((b"location", b"/elsewhere"),))
    async with Backend(config(scripted.url)) as backend:
        answer = await HttpTransport(backend).send([record()])
    assert answer.status == 307
    assert len(scripted.requests) == 1


async def test_retry_after_is_handed_on_as_it_came(scripted: ScriptedBackend) -> None:
    scripted.script = lambda _request: Reply(503, headers=((b"retry-after", b"7"),))
    async with Backend(config(scripted.url)) as backend:
        answer = await HttpTransport(backend).send([record()])
    assert (answer.status, answer.retry_after) == (503, "7")


async def test_an_endless_answer_is_cut_off(scripted: ScriptedBackend) -> None:
    scripted.script = lambda _request: Reply(200, b"x" * 5000)
    async with Backend(config(scripted.url, Limits(answer_bytes_max=1000))) as backend:
        answer = await HttpTransport(backend).send([record()])
    assert answer.status is TransportFailure.ANSWER_TOO_LARGE


async def test_nobody_listening_is_a_failure_to_connect() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with Backend(config(f"http://127.0.0.1:{port}")) as backend:
        answer = await HttpTransport(backend).send([record()])
    assert answer.status is TransportFailure.CONNECT


async def _raw_server(
    answer: bytes | Callable[[], bytes] | None,
) -> tuple[asyncio.Server, str, list[bytes]]:
    """Reads a request, writes ``answer`` (None: holds the connection open) and hangs up."""
    seen: list[bytes] = []

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        if answer is None:
            await reader.read(-1)
        else:
            writer.write(answer if isinstance(answer, bytes) else answer())
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (b"", TransportFailure.DISCONNECTED),
        (b"HTTP/1.1 20", TransportFailure.DISCONNECTED),
        (b"no http at all\r\n\r\n", TransportFailure.DISCONNECTED),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort", TransportFailure.DISCONNECTED),
    ],
)
async def test_broken_answers_are_failures_and_tried_once_more(
    answer: bytes, failure: TransportFailure
) -> None:
    server, url, seen = await _raw_server(answer)
    async with server, Backend(config(url)) as backend:
        got = await HttpTransport(backend).send([record()])
    assert got.status is failure
    assert len(seen) == 2


HEADS = (
    b"set-cookie: \xff=\xfe; Path=/",
    b"content-encoding: gzip",
    b"content-type: text/plain; charset=none-such",
    b"transfer-encoding: chunked",
    b"location: http://[/",
    b"retry-after: \xff",
    b"date: \x00",
    b"connection: upgrade",
    b"x" * 70_000 + b": 1",
    b": nameless",
)
"""What somebody between us and the backend may add."""


async def test_a_cookie_is_neither_kept_nor_sent_also_one_that_cannot_be() -> None:
    stored = b"HTTP/1.1 200 OK\r\nset-cookie: \xff=1\r\nset-cookie: a=b\r\ncontent-length: 2\r\n\r\n{}"
    server, url, seen = await _raw_server(stored)
    async with server, Backend(config(url)) as backend:
        answers = [await HttpTransport(backend).send([record(number)]) for number in range(3)]
    assert [answer.status for answer in answers] == [200] * 3
    assert not any(b"cookie" in request.lower() for request in seen)


async def test_whatever_is_answered_is_an_answer_or_a_failure(seed: int) -> None:
    print(f"ZAPLAKE_SEED={seed}")
    chance = random.Random(seed)

    def odd() -> bytes:
        status = chance.choice((101, 200, 204, 302, 400, 500, 999))
        heads = chance.sample(HEADS, k=chance.randrange(3))
        lines = [f"HTTP/1.{chance.randrange(3)} {status} X".encode(), b"content-length: 2", *heads]
        whole = bytearray(b"\r\n".join(lines) + b"\r\n\r\n{}")
        for _ in range(chance.randrange(3)):
            whole[chance.randrange(len(whole))] = chance.randrange(256)
        return bytes(whole[: chance.choice((len(whole), chance.randrange(len(whole))))])

    server, url, _ = await _raw_server(odd)
    kinds: set[type[object]] = set()
    async with server, Backend(config(url, Limits(request_timeout_s=0.5))) as backend:
        for number in range(200):
            answer = await HttpTransport(backend).send([record(number)])
            kinds.add(type(answer.status))
    assert kinds == {int, TransportFailure}


def test_a_connection_that_is_reset_while_it_is_made_is_an_outage() -> None:
    """As a killed backend does it. On uvloop, as in the process: there anyio asks a socket that is gone."""

    async def post_to_one_that_ends(turns: int) -> Answer:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            async with Backend(config(f"http://127.0.0.1:{listener.getsockname()[1]}")) as backend:
                sending = asyncio.create_task(HttpTransport(backend).send([record()]))
                for _ in range(turns):
                    await asyncio.sleep(0)
                listener.close()
                return await sending

    async def many() -> list[Answer]:
        return [await post_to_one_that_ends(turns % TURNS_MAX) for turns in range(10 * TURNS_MAX)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answers = runner.run(many())
    assert {type(answer.status) for answer in answers} == {TransportFailure}


async def test_silence_is_a_timeout() -> None:
    server, url, _ = await _raw_server(None)
    limits = Limits(request_timeout_s=0.2)
    async with server, Backend(config(url, limits)) as backend:
        answer = await HttpTransport(backend).send([record()])
    assert answer.status is TransportFailure.TIMEOUT


def subclasses(kind: type[httpx.TransportError]) -> set[type[httpx.TransportError]]:
    found = {kind}
    for child in kind.__subclasses__():
        found |= subclasses(child)
    return found


def test_every_transport_error_of_httpx_has_a_failure() -> None:
    assert subclasses(httpx.TransportError) == set(FAILURES)


def test_a_name_that_does_not_resolve_and_a_bad_certificate_are_told_apart() -> None:
    error = httpx.ConnectError("no")
    error.__cause__ = socket.gaierror(-2, "Name or service not known")
    assert failure_of(error) is TransportFailure.RESOLVE
    error.__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
    assert failure_of(error) is TransportFailure.TLS
    assert failure_of(httpx.ConnectError("no")) is TransportFailure.CONNECT


async def test_old_offenders_that_hang_leave_connections_for_the_batches_and_the_heartbeat() -> None:
    limits = Limits(batches_in_flight_max=2, solos_in_flight_max=3, request_timeout_s=5.0)
    arrived, everybody = 0, asyncio.Event()

    async def hanging(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal arrived
        await read_body(scope, receive, body_bytes_max=1000, budget=BodyBudget(1000))
        arrived += 1
        if arrived == 2 + 3 + 1:
            everybody.set()
        await everybody.wait()
        await send_answer(send, 503, b"{}")

    server = HttpServer(hanging)
    url = f"http://127.0.0.1:{await server.start()}"
    async with Backend(config(url, limits)) as backend:
        transport = HttpTransport(backend)
        answers = await asyncio.gather(*(transport.send([record(number)]) for number in range(1, 7)))
    assert [answer.status for answer in answers] == [503] * 6
    await server.stop(1)
