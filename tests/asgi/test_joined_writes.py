"""Head and body of an answer leave together, and nothing that was written is held back or lost."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

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


async def test_what_is_written_in_one_turn_is_one_write() -> None:
    recording = Recording()
    transport = joining(recording)
    for turn in (1, 2):
        transport.write(b"head ")
        transport.write(b"body")
        assert len(recording.told) == turn - 1
        await asyncio.sleep(0)
        assert recording.told == [b"head body"] * turn


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
