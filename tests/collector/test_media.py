"""Media go from a body into files while it is read: once each, bounded, no trace of what is refused."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import hmac
import json
import random
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.alerts import Alerts
from collector.capture import Capture
from collector.offline import request
from collector.spool import Spool
from collector.verbs import unheard
from contracts.blobs import BlobRef, encode_ref
from contracts.configured import CaptureFilter, CapturePolicy
from contracts.envelope import WRAP_BYTES_MAX
from outbox.clock import ManualClock
from outbox.memory import MemoryStore
from tests.collector.running import Running, collector_config, eventually, gateway, limits, running
from tests.support.arriving import take_webhook

NOWHERE = "http://127.0.0.1:9"
DOOR = "/gateways/evolution/loja-sp"
LIMIT = 400_000
BOUNDS = limits(
    body_bytes_max=LIMIT,
    bodies_in_flight_bytes_max=2_000_000,
    body_with_media_bytes_max=5_000_000,
    media_in_flight_bytes_max=5_000_000,
)
HMAC_KEY = "waha-key-of-the-tests"


def picture(size: int = 2_000_000, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def upsert(data: bytes | str, number: int = 1, event: str = "messages.upsert", **more: object) -> bytes:
    text = data if isinstance(data, str) else base64.b64encode(data).decode()
    message = {"imageMessage": {"mimetype": "image/jpeg"}, "base64": text, **more}
    element = {
        "key": {"id": f"M{number}", "remoteJid": "5511900000001@s.whatsapp.net", "fromMe": False},
        "messageTimestamp": 1777600000,
        "message": message,
    }
    body = {"event": event, "instance": "loja-sp", "date_time": "2026-05-01T10:00:00.000Z", "data": element}
    return json.dumps(body).encode()


class Folder:
    """What a collector keeps on the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "collector"

    def rows(self) -> list[dict[str, Any]]:
        with sqlite3.connect(self.folder / "outbox.sqlite3") as connection:
            found = connection.execute("SELECT body FROM outbox ORDER BY rowid").fetchall()
        return [json.loads(body) for (body,) in found]

    def blobs(self) -> dict[str, bytes]:
        folder = self.folder / "blobs"
        return {path.name: path.read_bytes() for path in folder.glob("*") if path.is_file()}

    def left(self) -> list[Path]:
        return list((self.folder / "blobs" / "tmp").glob("*"))


@pytest.fixture
def disk(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
async def collector(tmp_path: Path) -> AsyncIterator[Running]:
    own = (*gateway(name="evolution"), *gateway(name="waha", family="waha", hmac_keys=(HMAC_KEY,)))
    config = collector_config(tmp_path, NOWHERE, limits=BOUNDS, gateways=own)
    async with running(config) as started:
        yield started


async def test_a_picture_becomes_a_file_and_both_facts_refer_to_it(collector: Running, disk: Folder) -> None:
    data = picture()
    assert (await collector.post(DOOR, upsert(data))).status_code == 200
    assert disk.blobs() == {sha(data): data}
    assert disk.left() == []
    message, media = disk.rows()
    ref = json.loads(encode_ref(BlobRef(sha256=sha(data), bytes=len(data), mime="image/jpeg")))
    assert message["payload"]["message"]["base64"] == ref
    assert media["payload"]["media"] == {"sha256": sha(data), "bytes": len(data)}
    assert message["blobs"] == media["blobs"] == [ref]


async def test_the_same_picture_is_kept_once(collector: Running, disk: Folder) -> None:
    data = picture()
    for number in (1, 1, 2):
        assert (await collector.post(DOOR, upsert(data, number))).status_code == 200
    twice = json.dumps(
        {
            "event": "messages.upsert",
            "instance": "loja-sp",
            "date_time": "2026-05-01T10:00:00.000Z",
            "data": [json.loads(upsert(data[:100_000], number))["data"] for number in (3, 4)],
        }
    ).encode()
    assert (await collector.post(DOOR, twice)).status_code == 200
    assert disk.blobs().keys() == {sha(data), sha(data[:100_000])}
    assert disk.left() == []
    assert await collector.totals() == {"stored": 8, "duplicate": 2}


@pytest.mark.parametrize("size", [65_535, 65_536, 200_000])
async def test_from_a_size_on_whatever_the_body_is(collector: Running, disk: Folder, size: int) -> None:
    data = picture(size)
    assert (await collector.post(DOOR, upsert(data))).status_code == 200
    assert (
        await collector.post(DOOR, gzip.compress(upsert(data, 2)), **{"Content-Encoding": "gzip"})
    ).is_success
    assert disk.blobs() == ({sha(data): data} if size >= 65_536 else {})
    assert len(disk.rows()) == 4


async def test_text_above_its_limit_is_refused_and_nothing_is_left(collector: Running, disk: Folder) -> None:
    for body in (
        upsert(picture(), padding="x" * LIMIT),
        upsert("?" + "x" * LIMIT),
        upsert(picture(), event="something.new"),
        upsert(picture())[:-5],
        upsert(picture()) + b" " * 3_000_000,
    ):
        assert (await collector.post(DOOR, body)).status_code == 413
    assert "door.too_large" in await collector.alerts()
    assert (disk.rows(), disk.blobs(), disk.left()) == ([], {}, [])
    assert (await collector.post(DOOR, upsert(picture()))).status_code == 200, "all was given back"


async def test_base64_elsewhere_stays_as_it_was_within_the_limit(collector: Running, disk: Folder) -> None:
    data = picture(200_000)
    text = base64.b64encode(data).decode()
    bodies = [
        upsert(data, event="something.new"),
        upsert("QUJD", extra={"base64": text}),
        upsert(text[:70_000] + "\n" + text[70_000:]),
        upsert(text + "?"),
    ]
    for number, body in enumerate(bodies):
        body = body.replace(b'"M1"', b'"M%d"' % number)
        assert (await collector.post(DOOR, body)).status_code == 200
        payload = disk.rows()[-1 if number == 0 else -2]["payload"]
        assert payload == json.loads(body)["data"]
    assert (disk.blobs(), disk.left()) == ({}, [])


def waha(data: bytes) -> bytes:
    media = {"mimetype": "image/png", "data": base64.b64encode(data).decode()}
    payload = {"id": "false_5511900000001@c.us_AAA", "timestamp": 1777600000, "body": "", "media": media}
    return json.dumps({"event": "message", "session": "default", "id": "evt_1", "payload": payload}).encode()


async def test_a_signature_over_a_large_body_opens_the_door(collector: Running, disk: Folder) -> None:
    data = picture()
    body = waha(data)
    signature = hmac.digest(HMAC_KEY.encode(), body, "sha512").hex()
    for wrong in ({}, {"X-Webhook-Hmac": "00"}, {"X-Webhook-Hmac": signature[:-1] + "g"}):
        assert (await collector.post("/gateways/waha/default", body, **wrong)).status_code == 503
    assert (disk.rows(), disk.blobs(), disk.left()) == ([], {}, [])
    answer = await collector.post("/gateways/waha/default", body, **{"X-Webhook-Hmac": signature})
    assert answer.status_code == 200
    assert disk.blobs() == {sha(data): data}


async def test_a_gateway_that_leaves_takes_its_files_along(collector: Running, disk: Folder) -> None:
    body = upsert(picture(3_000_000))
    _, writer = await asyncio.open_connection("127.0.0.1", collector.client.base_url.port)
    writer.write(b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (DOOR.encode(), len(body)))
    writer.write(body[:-10])
    await eventually(lambda: sum(path.stat().st_size for path in disk.left()) > 2_200_000, "it is on its way")
    other = await collector.post(DOOR, upsert(picture(3_000_000, seed=2)))
    assert other.status_code == 503, "no room for another meanwhile"
    writer.close()
    await eventually(lambda: disk.left() == [], "its file is removed")

    async def room() -> bool:
        return (await collector.post(DOOR, upsert(picture(3_000_000, seed=2)))).status_code == 200

    await eventually(room, "room again")
    assert (await collector.totals())["door.budget"] >= 1


async def test_a_disk_that_fails_is_an_outage(collector: Running, disk: Folder) -> None:
    (disk.folder / "blobs").mkdir(exist_ok=True)
    (disk.folder / "blobs" / "tmp").write_bytes(b"in the way")
    assert (await collector.post(DOOR, upsert(picture()))).status_code == 503
    (disk.folder / "blobs" / "tmp").unlink()
    assert (await collector.post(DOOR, upsert(picture()))).status_code == 200


async def test_what_a_kill_left_is_removed_at_the_start(tmp_path: Path, disk: Folder) -> None:
    folder = disk.folder / "blobs" / "tmp"
    folder.mkdir(parents=True)
    (folder / "0123").write_bytes(b"half a picture")
    async with running(collector_config(tmp_path, NOWHERE, limits=BOUNDS)):
        assert disk.left() == []


async def test_a_fact_that_is_denied_leaves_no_file(tmp_path: Path, disk: Folder) -> None:
    policy = CapturePolicy(deny=CaptureFilter(kinds=frozenset({"message", "message.media"})))
    async with running(collector_config(tmp_path, NOWHERE, limits=BOUNDS, capture=policy)) as collector:
        assert (await collector.post(DOOR, upsert(picture()))).status_code == 200
    assert (disk.rows(), disk.blobs(), disk.left()) == ([], {}, [])


async def test_what_is_taken_becomes_no_more_than_a_backend_takes(collector: Running, disk: Folder) -> None:
    largest = upsert("QUJD")
    largest += b" " * (LIMIT - len(largest))
    assert (await collector.post(DOOR, largest)).status_code == 200
    broken = b"{" * (LIMIT - 1)
    assert (await collector.post(DOOR, broken)).status_code == 200
    assert max(len(json.dumps(row)) for row in disk.rows()) <= LIMIT + WRAP_BYTES_MAX


async def test_bytes_that_would_grow_beyond_that_are_refused(tmp_path: Path) -> None:
    bounds = limits(body_bytes_max=7 * 1024 * 1024)
    async with running(collector_config(tmp_path, NOWHERE, limits=bounds)) as collector:
        assert (await collector.post(DOOR, b"{" * (6 * 1024 * 1024))).status_code == 200
        assert (await collector.post(DOOR, b"{" * (7 * 1024 * 1024))).status_code == 413


async def test_a_file_of_events_is_cut_too(tmp_path: Path, disk: Folder) -> None:
    data = picture(150_000)
    line = json.loads(upsert(data)) | {"gateway": "evolution", "instance": "loja-sp"}
    path = tmp_path / "events.jsonl"
    path.write_text(json.dumps(line) + "\n")
    config = collector_config(tmp_path, NOWHERE, limits=BOUNDS)
    for stored in (2, 0):
        document, _ = await request(config, {"verb": "load", "path": str(path)}, unheard)
        assert document["counts"].get("stored", 0) == stored
    assert disk.blobs() == {sha(data): data}
    assert disk.left() == []


async def test_a_body_in_memory_is_stored_uncut_while_there_is_no_room_for_its_media(tmp_path: Path) -> None:
    config, clock = collector_config(tmp_path, NOWHERE, limits=BOUNDS), ManualClock()
    store = MemoryStore(clock)
    alerts = Alerts(now=clock.now, kept_max=10)
    capture = Capture(store=store, config=config, alerts=alerts, now=clock.now, on_put=lambda: None)
    await capture.open()
    body = upsert(picture(100_000))
    capture.spool.disk.take(capture.spool.disk.total_bytes_max)
    counts = await take_webhook(capture, body, gateway="evolution", path_instance=None, at=clock.now())
    capture.close()
    assert counts == {"stored": 2}
    (first, _) = await store.claim(now=clock.now(), limit=2, bytes_max=10_000_000)
    assert json.loads(first.body)["payload"] == json.loads(body)["data"]


async def test_many_pictures_in_one_body(collector: Running, disk: Folder) -> None:
    elements = [json.loads(upsert(picture(66_000, seed), seed))["data"] for seed in range(30)]
    body = {"event": "messages.set", "instance": "loja-sp", "date_time": "d", "data": {"messages": elements}}
    assert (await collector.post(DOOR, json.dumps(body).encode())).status_code == 200
    assert len(disk.blobs()) == 30
    assert disk.left() == []


@pytest.mark.parametrize("chunk", [1000, 65_537])
async def test_chunks_of_any_size_are_the_same_body(collector: Running, disk: Folder, chunk: int) -> None:
    data = picture(500_000)
    body = upsert(data)

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(body), chunk):
            yield body[at : at + chunk]

    answer: httpx.Response = await collector.client.post(DOOR, content=chunks())
    assert answer.status_code == 200
    assert disk.blobs() == {sha(data): data}


def test_a_file_that_cannot_be_removed_keeps_no_room_from_others(tmp_path: Path) -> None:
    spool = Spool(collector_config(tmp_path, NOWHERE, limits=BOUNDS))
    spooled = spool.cutting("evolution")
    assert spooled is not None
    spooled.take_memory(1000)
    spooled.take_disk(2000)
    spooled.feed(upsert(picture(200_000)))
    (path,) = Folder(tmp_path).left()
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match=path.name):
        spooled.close()
    assert (spool.memory.bytes_used, spool.disk.bytes_used) == (0, 0)
    spooled.close()
    assert (spool.memory.bytes_used, spool.disk.bytes_used) == (0, 0)
