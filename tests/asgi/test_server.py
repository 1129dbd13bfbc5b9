"""The server: any port, a unix socket, several on one port, and an end that is bounded."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import httpx
import pytest

from asgi.answers import problem, send_answer
from asgi.server import HttpServer
from asgi.types import Receive, Scope, Send


async def hello(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send_answer(send, 200, b"{}")


async def get(port: int) -> int:
    async with httpx.AsyncClient() as client:
        return (await client.get(f"http://127.0.0.1:{port}/")).status_code


async def test_it_serves_on_a_free_port_until_stopped() -> None:
    server = HttpServer(hello)
    port = await server.start()
    assert await get(port) == 200
    await server.stop(1)
    await server.stop(1)
    with pytest.raises(httpx.ConnectError):
        await get(port)


async def test_stop_before_start_is_nothing() -> None:
    await HttpServer(hello).stop(1)


async def test_two_share_a_port_only_when_told() -> None:
    first = HttpServer(hello, reuse_port=True)
    port = await first.start()
    second = HttpServer(hello, port=port, reuse_port=True)
    assert await second.start() == port
    with pytest.raises(OSError, match="in use"):
        await HttpServer(hello, port=port).start()
    await first.stop(1)
    assert await get(port) == 200
    await second.stop(1)


async def test_a_unix_socket_is_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "s"
    server = HttpServer(hello, uds=path)
    assert await server.start() == 0
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.get("http://x/")).status_code == 200
    await server.stop(1)
    assert not path.exists()


async def test_a_stop_lets_running_requests_end_and_is_bounded() -> None:
    running, release = asyncio.Event(), asyncio.Event()

    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        running.set()
        await release.wait()
        await send_answer(send, 200, b"{}")

    server = HttpServer(slow)
    request = asyncio.create_task(get(await server.start()))
    await running.wait()
    stopping = asyncio.create_task(server.stop(10))
    await asyncio.sleep(0)
    release.set()
    await stopping
    assert await request == 200

    running.clear()
    release.clear()
    server = HttpServer(slow)
    request = asyncio.create_task(get(await server.start()))
    await running.wait()
    async with asyncio.timeout(5):
        await server.stop(0.1)
    with pytest.raises((httpx.HTTPError, AssertionError)):
        assert await request == 200


async def test_signals_stay_with_the_caller() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    server = HttpServer(hello)
    await server.start()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    await server.stop(1)


def test_a_problem_document_leaves_out_what_is_not_said() -> None:
    assert problem(401, "urn:x", "No") == b'{"type":"urn:x","title":"No","status":401}'
    assert problem(401, "urn:x", "No", "why") == b'{"type":"urn:x","title":"No","status":401,"detail":"why"}'
