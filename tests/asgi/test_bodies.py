"""Bodies are bounded: each one, all together, and in time; a refused one is answered and not reset."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest

from asgi import body as body_module
from asgi.answers import send_answer
from asgi.body import (
    BodyBudget,
    BodyStalled,
    BodyTooLarge,
    BudgetExhausted,
    ClientGone,
    read_body,
)
from asgi.server import HttpServer
from asgi.types import Message, Receive, Scope, Send

LIMIT = 100_000
Shape: TypeAlias = Callable[[int], list[bytes]]
STATUSES = {BodyTooLarge: 413, BudgetExhausted: 503, BodyStalled: 408}


class Echo:
    """Answers with the length of the body, or with the status of its refusal."""

    def __init__(self, total_bytes_max: int = 10 * LIMIT) -> None:
        self.budget = BodyBudget(total_bytes_max)
        self.gone = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(scope, receive, body_bytes_max=LIMIT, budget=self.budget)
        except ClientGone:
            self.gone.set()
        except (BodyTooLarge, BudgetExhausted, BodyStalled) as error:
            await send_answer(send, STATUSES[type(error)], b"")
        else:
            self.budget.give(len(body))
            await send_answer(send, 200, str(len(body)).encode())


@asynccontextmanager
async def connected(app: Echo) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    server = HttpServer(app)
    reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
    try:
        yield reader, writer
    finally:
        writer.close()
        await server.stop(1)


async def status_of(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        await reader.readexactly(length)
    return int(head[9:12])


def with_length(size: int) -> list[bytes]:
    return [f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode(), b"x" * size]


def chunked(size: int) -> list[bytes]:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = [min(7000, size - start) for start in range(0, size, 7000)]
    return [head, *[b"%x\r\n%s\r\n" % (piece, b"x" * piece) for piece in pieces], b"0\r\n\r\n"]


@pytest.mark.parametrize("shape", [with_length, chunked])
@pytest.mark.parametrize(
    ("size", "status"), [(0, 200), (1, 200), (LIMIT, 200), (LIMIT + 1, 413), (20 * LIMIT, 413)]
)
async def test_the_limit_of_one_body(shape: Shape, size: int, status: int) -> None:
    app = Echo()
    async with connected(app) as (reader, writer):
        for _ in range(2):  # the connection is fit for another request afterwards
            for piece in shape(size):
                writer.write(piece)
                await writer.drain()
            assert await status_of(reader) == status
        assert app.budget.bytes_used == 0


@pytest.mark.parametrize("shape", [with_length, chunked])
async def test_the_limit_of_all_bodies(shape: Shape) -> None:
    app = Echo(total_bytes_max=LIMIT)
    app.budget.take(LIMIT // 2)
    async with connected(app) as (reader, writer):
        for piece in shape(LIMIT):
            writer.write(piece)
            await writer.drain()
        assert await status_of(reader) == 503
        assert app.budget.bytes_used == LIMIT // 2


async def test_a_body_that_stands_still_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "IDLE_S_MAX", 0.1)
    app = Echo()
    async with connected(app) as (reader, writer):
        writer.write(with_length(LIMIT)[0] + b"x" * 10)
        assert await status_of(reader) == 408
        assert app.budget.bytes_used == 0


async def test_a_client_that_leaves_gives_its_bytes_back() -> None:
    app = Echo()
    async with connected(app) as (_, writer):
        writer.write(with_length(LIMIT)[0] + b"x" * 70_000)
        await writer.drain()
        writer.transport.abort()
        async with asyncio.timeout(10):
            await app.gone.wait()
        assert app.budget.bytes_used == 0


async def test_what_is_drained_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "DRAIN_BYTES_MAX", 5 * LIMIT)
    received = 0

    async def endless() -> Message:
        nonlocal received
        received += LIMIT
        return {"type": "http.request", "body": b"x" * LIMIT, "more_body": True}

    with pytest.raises(BodyTooLarge):
        await read_body({"headers": []}, endless, body_bytes_max=LIMIT, budget=BodyBudget(10 * LIMIT))
    assert received <= 8 * LIMIT


@pytest.mark.parametrize("value", [b"", b"-1", b"1e9", b"9" * 30, b"\xff", b"0x10"])
async def test_a_hostile_length_is_only_a_hint(value: bytes) -> None:
    async def one() -> Message:
        return {"type": "http.request", "body": b"abc", "more_body": False}

    more = iter([True, False])

    async def two() -> Message:
        return {"type": "http.request", "body": b"abc", "more_body": next(more)}

    scope = {"headers": [(b"content-length", value)]}
    budget = BodyBudget(LIMIT)
    assert await read_body(scope, one, body_bytes_max=LIMIT, budget=budget) == b"abc"
    assert await read_body(scope, two, body_bytes_max=LIMIT, budget=budget) == b"abcabc"
