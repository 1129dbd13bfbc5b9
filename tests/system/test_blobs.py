"""Images from the gateway's body into the blob store: through kills, full disks and twenty copies."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import random
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from collector.config import CollectorConfig
from ingest.blobs import INCOMING_NAME, KEPT_NAME
from tests.collector.running import eventually, running
from tests.ingest.backend import SECRET, backend
from tests.support.load import until
from tests.support.small_disk import needed_disk
from tests.system.stage import living, waiting
from tests.system.victims import Death, Victim

MIB = 1024 * 1024
IMAGE_BYTES = 8 * MIB
HELD_BYTES = 4 * MIB
"""Parts have 1, 2 and 4 MiB: two are there, and the third is on its way."""
STEP_S_MAX = 60.0
LOOK_BYTES = 65_536
DOOR = "/gateways/evolution/loja-sp"


def image(seed: int, size: int = IMAGE_BYTES) -> bytes:
    return random.Random(seed).randbytes(size)


def upsert(content: bytes, number: int) -> bytes:
    """An Evolution webhook of a message with its image as base64."""
    element = {
        "key": {"id": f"3EB0{number:012X}", "remoteJid": "5511900000001@s.whatsapp.net", "fromMe": False},
        "messageTimestamp": 1_764_950_400 + number,
        "message": {
            "imageMessage": {"mimetype": "image/jpeg"},
            "base64": base64.b64encode(content).decode(),
        },
    }
    body = {"event": "messages.upsert", "instance": "loja-sp", "data": element}
    return json.dumps({**body, "date_time": "2026-01-01T10:00:00.000Z"}).encode()


class HoldingRelay:
    """A way to the server that stands still after so many bytes, until it is told to go on."""

    def __init__(self, port: Callable[[], int], bytes_max: int) -> None:
        self._port = port
        self.bytes_max: float = bytes_max
        self.forwarded = 0
        self.url = ""
        self._goes_on = asyncio.Event()

    def go_on(self) -> None:
        self.bytes_max, self.forwarded = float("inf"), 0
        self._goes_on.set()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            there, back = await asyncio.open_connection("127.0.0.1", self._port())
            with contextlib.closing(back):
                forward = asyncio.create_task(self._forward(reader, back))
                try:
                    while answer := await there.read(LOOK_BYTES):
                        writer.write(answer)
                        await writer.drain()
                finally:
                    forward.cancel()

    async def _forward(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while request := await reader.read(LOOK_BYTES):
                if self.forwarded > self.bytes_max:
                    await self._goes_on.wait()
                self.forwarded += len(request)
                back.write(request)
                await back.drain()


@contextlib.asynccontextmanager
async def holding(port: Callable[[], int], bytes_max: int) -> AsyncIterator[HoldingRelay]:
    relay = HoldingRelay(port, bytes_max)
    server = await asyncio.start_server(relay.converse, "127.0.0.1", 0)
    relay.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield relay


async def rows(dsn: str, query: str) -> list[dict[str, Any]]:
    connection = await asyncpg.connect(dsn)
    try:
        return [dict(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


def kept(folder: Path) -> dict[str, bytes]:
    files = [path for path in (folder / KEPT_NAME).rglob("*") if path.is_file()]
    return {path.name: path.read_bytes() for path in files}


def incoming_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / INCOMING_NAME).rglob("*") if path.is_file())


@pytest.mark.parametrize("whose", ["collector", "backend"])
@pytest.mark.timeout(300)
async def test_an_upload_goes_on_behind_a_kill(dsn: str, tmp_path: Path, whose: str) -> None:
    folder, content = tmp_path / "blobs", image(1)
    sha256 = hashlib.sha256(content).hexdigest()

    def serve(port: int) -> list[str]:
        return ["ingest", "--dsn", dsn, "--port", str(port), "--blobs", str(folder)]

    there = Victim("backend", serve, tmp_path / "backend.log")
    async with holding(lambda: there.port, HELD_BYTES) as relay:

        def collect(_port: int) -> list[str]:
            return ["collector", "--folder", str(tmp_path / "outbox"), "--backend-url", relay.url]

        here = Victim("collector", collect, tmp_path / "collector.log")
        async with living([there, here]):
            async with httpx.AsyncClient(timeout=STEP_S_MAX) as client:
                answer = await client.post(f"http://127.0.0.1:{here.port}{DOOR}", content=upsert(content, 1))
            assert answer.status_code == 200
            await until("two parts came", lambda: incoming_bytes(folder) == 3 * MIB, seconds_max=STEP_S_MAX)
            assert await rows(dsn, "SELECT 1 FROM lake.event_ids UNION ALL SELECT 1 FROM lake.blobs") == []
            victim = here if whose == "collector" else there
            await victim.die(Death.ANY_MOMENT, random.Random(1))
            relay.go_on()
            await victim.start()
            await until("all is delivered", lambda: waiting(here.port) == 0, seconds_max=STEP_S_MAX)
    assert relay.forwarded < 6 * MIB, "what was there was sent again"
    assert kept(folder) == {sha256: content}
    (event,) = await rows(
        dsn,
        """SELECT e.payload::text, e.received_at >= b.stored_at AS in_order, r.lost
             FROM lake.whatsapp_event_logs e JOIN lake.blob_refs r USING (event_id)
             JOIN lake.blobs b USING (sha256) WHERE e.kind = 'message'""",
    )
    assert (event["in_order"], event["lost"]) == (True, None)
    ref = {"sha256": sha256, "bytes": IMAGE_BYTES, "mime": "image/jpeg"}
    assert json.loads(event["payload"])["message"]["base64"] == {"$blob": ref}
    assert incoming_bytes(folder) == 0
    assert list((tmp_path / "outbox" / "blobs").glob("?" * 64)) == []


@contextlib.asynccontextmanager
async def collecting(folder: Path, port: int) -> AsyncIterator[Any]:
    config = CollectorConfig(
        backend_url=f"http://127.0.0.1:{port}",
        secrets=(SECRET,),
        data_folder=folder,
        port=0,
        cut_media=True,
    )
    async with running(config) as collector:
        yield collector


async def test_one_image_in_twenty_events_is_one_object(dsn: str, tmp_path: Path) -> None:
    content = image(2, 200_000)
    async with (
        backend(dsn, blob_folder=tmp_path / "blobs") as there,
        collecting(tmp_path / "collector", there.port) as collector,
    ):
        for half in (range(10), range(10, 20)):
            answers = await asyncio.gather(*(collector.post(DOOR, upsert(content, n)) for n in half))
            assert {answer.status_code for answer in answers} == {200}

            async def delivered() -> bool:
                return bool((await collector.outbox())["waiting"] == 0)

            await eventually(delivered, "all is delivered")
        assert list(kept(tmp_path / "blobs").values()) == [content]
        (blobs,) = await there.fetch("SELECT count(*)::int AS n FROM lake.blobs")
        (refs,) = await there.fetch(
            """SELECT count(DISTINCT r.event_id)::int AS n FROM lake.blob_refs r
                 JOIN lake.whatsapp_event_logs e USING (event_id) WHERE e.kind = 'message'"""
        )
        assert (blobs["n"], refs["n"]) == (1, 20)
        bytes_stored = there.service.metrics.registry.get_sample_value("zaplake_ingest_blob_bytes_total")
        assert bytes_stored == len(content)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 2 MiB; needs the right to mount one."""
    with needed_disk(tmp_path, mib=2) as disk:
        yield disk


async def test_a_full_disk_of_the_backend_holds_up_only_what_has_an_image(
    dsn: str, tmp_path: Path, small_disk: Path
) -> None:
    content = image(3, 3 * MIB)
    async with (
        backend(dsn, blob_folder=small_disk / "blobs") as there,
        collecting(tmp_path / "collector", there.port) as collector,
    ):
        assert (await collector.post(DOOR, upsert(content, 1))).status_code == 200
        assert (await collector.post(DOOR, upsert(b"", 2))).status_code == 200

        async def only_the_image_waits() -> bool:
            status = await collector.status()
            verdict, waits = status["blob_shipper"]["last_verdict"], status["outbox"]["blobs_waiting"]
            return bool((verdict, waits, await there.count()) == ("retry", 1, 1))

        await eventually(only_the_image_waits, "the event without an image has passed")
        outbox = await collector.outbox()
        assert (outbox["dead"], outbox["blobs_dead"]) == (0, 0)
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)

        async def delivered() -> bool:
            return bool((await collector.outbox())["waiting"] == 0)

        await eventually(delivered, "there is room again")
        assert list(kept(small_disk / "blobs").values()) == [content]
