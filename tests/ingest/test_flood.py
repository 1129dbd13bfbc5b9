"""64 bodies of 64 MiB + 1 at once are all answered, and the process stays below 512 MiB."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from contracts.envelope import EVENT_PATH
from tests.ingest.backend import SECRET
from tests.support.memory import peak_rss_bytes
from tests.support.serve_faulty import SECRET_VARIABLE

BODY_BYTES = 64 * 1024 * 1024 + 1
REQUESTS = 64
MIB = 1024 * 1024
PIECE = b"x" * MIB


@asynccontextmanager
async def serving(dsn: str) -> AsyncIterator[tuple[int, int]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.serve_faulty", "--dsn", dsn,
        env=os.environ | {SECRET_VARIABLE: SECRET.decode()}, cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            ready = json.loads(await process.stdout.readline())
        yield ready["port"], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await process.wait() == 0


async def flood(port: int, *, chunked: bool) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {BODY_BYTES}"
    writer.write(f"POST {EVENT_PATH} HTTP/1.1\r\nHost: x\r\n{length}\r\n\r\n".encode())
    left = BODY_BYTES
    while left:
        piece = PIECE[: min(left, MIB)]
        left -= len(piece)
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        await writer.drain()
    if chunked:
        writer.write(b"0\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return int(head[9:12])


async def test_64_bodies_above_the_limit_at_once(dsn: str) -> None:
    async with serving(dsn) as (port, pid):
        answers = await asyncio.gather(*[flood(port, chunked=number % 2 == 0) for number in range(REQUESTS)])
        # Without a length the budget of all bodies may run out first: that is 503, to be sent again.
        assert set(answers[0::2]) <= {413, 503}
        assert set(answers[1::2]) == {413}
        assert await flood(port, chunked=True) == 413
        assert peak_rss_bytes(pid) < 512 * MIB
