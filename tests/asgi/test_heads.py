"""Heads are bounded: an endless or slow one ends its own connection and nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from asgi import protocol
from asgi.answers import send_answer
from asgi.body import BodyBudget, ClientGone, read_body
from asgi.server import HttpServer
from asgi.types import Receive, Scope, Send

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def hello(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send_answer(send, 200, b"{}")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = HttpServer(hello)
    yield await server.start()
    await server.stop(1)


async def answers(port: int, *pieces: bytes) -> list[int]:
    """The statuses that come back until the server closes or stands still."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(5):
            received = await reader.read()
    except OSError:
        pass
    finally:
        writer.close()
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


CLOSE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def test_an_endless_head_is_431(port: int) -> None:
    endless = [b"GET / HTTP/1.1\r\nX: ", *[b"x" * 8192] * 9]
    assert await answers(port, *endless) == [431]
    assert (await answers(port, REQUEST, *endless))[:1] != [431]


async def test_a_large_head_within_the_limit_is_served(port: int) -> None:
    large = b"GET / HTTP/1.1\r\nConnection: close\r\nX: " + b"x" * 60_000 + b"\r\n\r\n"
    assert await answers(port, large) == [200]
    assert await answers(port, large[:30_000], large[30_000:]) == [200]


async def test_heads_do_not_add_up_over_requests(port: int) -> None:
    halves = [b"GET /?" + b"x" * 5000, b" HTTP/1.1\r\nHost: x\r\n\r\n"] * 20
    assert await answers(port, *halves, CLOSE) == [200] * 21


@pytest.mark.parametrize("start", [b"", b"GET / HT", REQUEST + b"GET /"], ids=["nothing", "first", "second"])
async def test_a_head_that_stands_still_is_closed(
    port: int, start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_S_MAX", 0.1)
    assert await answers(port, start) == [200] * start.count(REQUEST)


async def test_a_body_that_never_begins_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_S_MAX", 0.1)
    gone = asyncio.Event()

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await read_body(scope, receive, body_bytes_max=100, budget=BodyBudget(100))
        except ClientGone:
            gone.set()
            return
        await send_answer(send, 200, b"{}")

    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
    server = HttpServer(reading)
    port = await server.start()
    assert await answers(port, head + b"{}", head[:20], head[20:] + b"{}", head) == [200, 200]
    await asyncio.wait_for(gone.wait(), 5)
    await server.stop(1)


async def test_a_request_behind_a_slow_one_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_S_MAX", 0.05)

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.2)
        body = await read_body(scope, receive, body_bytes_max=100, budget=BodyBudget(100))
        await send_answer(send, 200, body)

    heads = [
        b"POST / HTTP/1.1\r\nHost: x\r\n%bContent-Length: 2\r\n\r\n" % more
        for more in (b"", b"Connection: close\r\n")
    ]
    server = HttpServer(slow)
    assert await answers(await server.start(), heads[0] + b"{}" + heads[1], b"{}") == [200, 200]
    await server.stop(1)


async def test_a_slow_answer_is_not_a_slow_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_S_MAX", 0.05)

    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.2)
        await send_answer(send, 200, b"{}")

    server = HttpServer(slow)
    assert await answers(await server.start(), CLOSE) == [200]
    await server.stop(1)
