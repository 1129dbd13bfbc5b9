"""Large bodies and a real process: bounded memory, the same picture once, and what SIGKILL leaves."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from tests.collector.running import eventually
from tests.collector.test_kill import process
from tests.support.memory import peak_rss_bytes

MB = 1_000_000
GROWTH_BYTES_MAX = 40 * MB
"""Whatever the body: a few steps of 1 MiB, and what the allocator keeps of them."""
PIECE = bytes(range(256)) * 768


async def evolution_body(number: int, body_bytes: int) -> AsyncIterator[bytes]:
    """A message with one picture; made piece by piece, so that the test itself needs no memory."""
    key = {"id": f"M{number}", "remoteJid": "5511900000001@s.whatsapp.net", "fromMe": False}
    yield json.dumps({"event": "messages.upsert", "instance": "loja-sp", "date_time": "d"})[:-1].encode()
    yield b',"data":{"key":%s,"message":{"imageMessage":{},"base64":"' % json.dumps(key).encode()
    text = base64.b64encode(PIECE)
    for _ in range(body_bytes // len(text)):
        yield text
    yield b'"}}}'


async def test_the_largest_body_of_evolution_costs_a_few_megabytes(tmp_path: Path) -> None:
    grown: dict[int, int] = {}
    async with process(tmp_path, "http://127.0.0.1:9") as (child, port):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120) as http:

            async def post(number: int, size: int) -> int:
                body = evolution_body(number, size)
                return (await http.post("/gateways/evolution/loja-sp", content=body)).status_code

            assert await post(0, 0) == 200
            before = peak_rss_bytes(child.pid)
            for number, size in ((1, 16 * MB), (2, 136 * MB), (3, 136 * MB)):
                assert await post(number, size) == 200
                grown[size] = peak_rss_bytes(child.pid) - before
            assert await post(4, 170 * MB) == 413
        child.terminate()
        assert await child.wait() == 0
    kept = [path.stat().st_size for path in (tmp_path / "collector" / "blobs").glob("*") if path.is_file()]
    assert len(kept) == 2, "the same picture twice is one file"
    assert max(kept) > 100 * MB
    print({f"{size // MB} MB": f"{bytes_grown / MB:.1f} MB" for size, bytes_grown in grown.items()})
    assert max(grown.values()) < GROWTH_BYTES_MAX, grown


async def test_kill_9_loses_no_picture_that_was_answered_and_keeps_no_half_one(tmp_path: Path) -> None:
    blobs = tmp_path / "collector" / "blobs"

    def kept() -> dict[str, str]:
        files = (path for path in blobs.glob("*") if path.is_file())
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def halves() -> int:
        return len(list((blobs / "tmp").glob("*")))

    async with process(tmp_path, "http://127.0.0.1:9") as (child, port):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120) as http:
            answer = await http.post("/gateways/evolution/loja-sp", content=evolution_body(1, 3 * MB))
        assert answer.status_code == 200
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /gateways/evolution/x HTTP/1.1\r\nhost: x\r\ncontent-length: 9000000\r\n\r\n")
        async for piece in evolution_body(2, 6 * MB):
            writer.write(piece)
        await eventually(lambda: halves() == 1, "half a picture is on the disk")
        child.kill()
        await child.wait()
        writer.close()
    assert halves() == 1
    async with process(tmp_path, "http://127.0.0.1:9"):
        assert halves() == 0
        (name,) = kept()
        assert stat.S_IMODE((blobs / name).stat().st_mode) == 0o600
        assert kept() == {name: name}
        with sqlite3.connect(tmp_path / "collector" / "outbox.sqlite3") as connection:
            bodies = [bytes(body) for (body,) in connection.execute("SELECT body FROM outbox")]
        assert len(bodies) == 2
        assert all(name.encode() in body for body in bodies)
