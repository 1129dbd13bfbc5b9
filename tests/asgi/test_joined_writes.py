"""Head and body of an answer leave together, and nothing that was written is held back or lost."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import cast

import pytest
import uvloop

from asgi.answers import send_answer
from asgi.protocol import JOINED_BYTES_MAX, JoinedWrites
from asgi.server import HttpServer
from asgi.types import Receive, Scope, Send

LARGE = b"x" * (4 * JOINED_BYTES_MAX)
REQUEST = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"


class Recording:
    """A transport that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def close(self) -> None:
        self.told.append(b"closed")

    def is_closing(self) -> bool:
        return False


def joining(recording: Recording) -> JoinedWrites:
    return JoinedWrites(cast("asyncio.Transport", recording), asyncio.get_running_loop())


async def test_head_and_body_are_one_write() -> None:
    recording = Recording()
    transport = joining(recording)
    for turn in (1, 2):
        transport.write(b"head ")
        assert len(recording.told) == turn - 1
        transport.write(b"body")
        assert recording.told == [b"head body"] * turn
        await asyncio.sleep(0)
        assert recording.told == [b"head body"] * turn


async def test_a_head_alone_is_not_held_back() -> None:
    recording = Recording()
    transport = joining(recording)
    transport.write(b"head of a stream")
    await asyncio.sleep(0)
    assert recording.told == [b"head of a stream"]


async def test_a_close_lets_what_was_written_go_first() -> None:
    recording = Recording()
    transport = joining(recording)
    transport.write(b"last words")
    transport.close()
    await asyncio.sleep(0)
    assert recording.told == [b"last words", b"closed"]


async def test_no_more_than_the_bound_is_gathered() -> None:
    recording = Recording()
    transport = joining(recording)
    transport.write(b"head ")
    transport.write(LARGE)
    assert recording.told == [b"head " + LARGE]
    await asyncio.sleep(0)
    assert recording.told == [b"head " + LARGE]
    assert not transport.is_closing()


async def by_path(scope: Scope, _receive: Receive, send: Send) -> None:
    await send_answer(send, 200, LARGE if scope["path"] == "/large" else scope["path"].encode())


async def _half_closing(port: int) -> bytes:
    """A client that says in the packet of its request that it will send no more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST % b"one")
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


def _reset(port: int) -> None:
    """A client that leaves without a word, with its answer on the way."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(REQUEST % b"one")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_who_half_closes_gets_the_answer_and_who_leaves_harms_nobody(
    run: Callable[[Coroutine[None, None, None]], None],
) -> None:
    faults: list[dict[str, object]] = []

    async def clients() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
        server = HttpServer(by_path)
        port = await server.start()
        for _ in range(20):
            assert (await _half_closing(port)).endswith(b"/one")
        await asyncio.gather(*(asyncio.to_thread(_reset, port) for _ in range(200)))
        assert (await _half_closing(port)).endswith(b"/one")
        await server.stop(1)

    run(clients())
    assert faults == []


@pytest.mark.parametrize("close", [False, True])
async def test_pipelined_answers_come_whole_and_in_order(close: bool) -> None:
    server = HttpServer(by_path)
    port = await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    names = [b"one", b"large", b"two"]
    requests = [REQUEST % name for name in names]
    if close:
        requests[-1] = requests[-1].replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    writer.write(b"".join(requests))
    for body in (b"/one", LARGE, b"/two"):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length: %d" % len(body) in head
        assert await reader.readexactly(len(body)) == body
    if close:
        assert await reader.read() == b""
    writer.close()
    await server.stop(1)
