"""Blobs on their way to the backend: in parts, resumed, judged by contract §3, never in the events' way."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.backend import Backend
from collector.uploading import (
    PART_BYTES_FIRST,
    PART_BYTES_MIN,
    STALLED_MAX,
    UNKNOWN_TYPE,
    BlobTransport,
    next_part_bytes,
)
from contracts.blob_upload import PART_BYTES_MAX, PROBLEM_WRONG_HASH, blob_path
from contracts.blobs import BlobRef, blob_event_id, encode_ref, mark_lost
from contracts.envelope import PROBLEM_TOO_LARGE, encode_event
from outbox.clock import SystemClock
from outbox.metering import MeteredStore
from outbox.record import NewBlob, NewRecord, Record
from outbox.sqlite import SqliteStore, open_sqlite
from outbox.store import Store
from outbox.transport import Answer
from outbox.verdict import TransportFailure, classify_response
from tests.collector.running import Running, collector_config, eventually, gateway, message, running
from tests.collector.scripted import Reply, Request, Script, ScriptedBackend
from tests.outbox.records import blob_of, sha256_of

LARGE = os.urandom(PART_BYTES_FIRST * 4)
SMALL = b"voice" * 100


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedBackend]:
    async with ScriptedBackend() as backend:
        yield backend


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite(tmp_path / "outbox")
    yield opened
    await opened.close()


async def claimed(store: Store, folder: Path, content: bytes, mime: str = "image/jpeg") -> Record:
    await store.put([NewRecord(id="a", body=b"{}", blobs=(blob_of(folder, content, mime),))])
    (record,) = await store.blobs.claim(now=SystemClock().now(), limit=1, bytes_max=0)
    return record


async def upload(scripted: ScriptedBackend, store: Store, tmp_path: Path, record: Record) -> Answer:
    async with Backend(collector_config(tmp_path, scripted.url)) as backend:
        return await BlobTransport(backend, store.blobs).send([record])


def ranges(scripted: ScriptedBackend) -> list[str]:
    return [request.headers["content-range"] for request in scripted.requests]


async def test_a_blob_is_asked_for_and_then_sent_as_the_contract_says(
    scripted: ScriptedBackend, store: SqliteStore, tmp_path: Path
) -> None:
    record = await claimed(store, tmp_path / "spool", SMALL, "audio/ogg")
    answer = await upload(scripted, store, tmp_path, record)
    assert (answer.status, answer.receipts[record.id].status) == (200, "stored")
    assert ranges(scripted) == ["bytes */500", "bytes 0-499/500"]
    asked, sent = scripted.requests
    assert (asked.method, asked.path, asked.body) == ("PUT", blob_path(sha256_of(SMALL)), b"")
    assert sent.event_id == blob_event_id(sha256_of(SMALL))
    assert sent.headers["content-type"] == "audio/ogg"
    assert scripted.blobs == {sha256_of(SMALL): SMALL}


@pytest.mark.parametrize("mime", ["image/jpeg ", " image/jpeg", "image/é", "a\nb", ""])
async def test_a_stored_type_that_no_header_can_hold_is_sent_as_unknown(
    scripted: ScriptedBackend, store: SqliteStore, tmp_path: Path, mime: str
) -> None:
    record = await claimed(store, tmp_path / "spool", SMALL, mime)
    answer = await upload(scripted, store, tmp_path, record)
    assert (answer.status, answer.receipts[record.id].status) == (200, "stored")
    assert {request.headers["content-type"] for request in scripted.requests} == {UNKNOWN_TYPE}


async def test_a_blob_that_is_there_is_not_sent(
    scripted: ScriptedBackend, store: SqliteStore, tmp_path: Path
) -> None:
    record = await claimed(store, tmp_path / "spool", LARGE)
    scripted.blobs[record.id] = LARGE
    answer = await upload(scripted, store, tmp_path, record)
    assert answer.receipts[record.id].status == "duplicate"
    assert [len(request.body) for request in scripted.requests] == [0]


async def test_it_goes_on_where_the_backend_has_ended(
    scripted: ScriptedBackend, store: SqliteStore, tmp_path: Path
) -> None:
    record = await claimed(store, tmp_path / "spool", LARGE)
    scripted.script = lambda _request: Reply(503) if len(scripted.requests) == 4 else None
    answer = await upload(scripted, store, tmp_path, record)
    assert answer.status == 503
    had = len(scripted.parts[record.id])
    assert had > PART_BYTES_FIRST
    scripted.requests.clear()
    scripted.script = None
    answer = await upload(scripted, store, tmp_path, record)
    assert answer.receipts[record.id].status == "stored"
    assert ranges(scripted)[1].startswith(f"bytes {had}-")
    assert scripted.blobs[record.id] == LARGE


async def test_a_proxy_that_takes_no_large_requests_gets_small_parts(
    scripted: ScriptedBackend, store: SqliteStore, tmp_path: Path
) -> None:
    """Not a halt of all blobs, which would last until somebody configured the proxy."""
    proxy_bytes_max = PART_BYTES_FIRST + 1
    refused: list[int] = []

    def proxy(request: Request) -> Reply | None:
        if len(request.body) <= proxy_bytes_max:
            return None
        refused.append(len(request.body))
        return Reply(413, b"<html>", content_type=b"text/html")

    scripted.script = proxy
    record = await claimed(store, tmp_path / "spool", LARGE)
    answer = await upload(scripted, store, tmp_path, record)
    assert answer.status == 200
    assert scripted.blobs[record.id] == LARGE
    assert len(refused) == 1, "it is learned once"
    scripted.script = lambda request: Reply(413) if request.body else None
    scripted.blobs.clear()
    assert (await upload(scripted, store, tmp_path, record)).status == 413
    assert min(len(request.body) for request in scripted.requests if request.body) == PART_BYTES_MIN


async def test_a_backend_that_has_all_but_did_not_keep_it_is_nudged(
    scripted: ScriptedBackend, store: SqliteStore, tmp_path: Path
) -> None:
    record = await claimed(store, tmp_path / "spool", SMALL)
    scripted.parts[record.id] = SMALL
    scripted.script = _first_time_only_a_place(scripted, len(SMALL))
    answer = await upload(scripted, store, tmp_path, record)
    assert answer.receipts[record.id].status == "stored"
    assert ranges(scripted) == ["bytes */500", "bytes 499-499/500"]


def _first_time_only_a_place(scripted: ScriptedBackend, offset: int) -> Script:
    def script(request: Request) -> Reply | None:
        if len(scripted.requests) > 1:
            return None
        sha256 = request.path.rpartition("/")[2]
        return Reply(202, json.dumps(_partial(sha256, offset)).encode())

    return script


def _partial(sha256: str, offset: int) -> dict[str, object]:
    return {"status": "partial", "event_id": "", "sha256": sha256, "offset": offset}


async def test_an_upload_that_does_not_come_forward_ends(
    scripted: ScriptedBackend, store: SqliteStore, tmp_path: Path
) -> None:
    record = await claimed(store, tmp_path / "spool", SMALL)
    answer_of = Reply(202, json.dumps(_partial(record.id, 0)).encode())
    scripted.script = lambda _request: answer_of
    answer = await upload(scripted, store, tmp_path, record)
    assert answer.status is TransportFailure.OTHER
    assert len(scripted.requests) <= STALLED_MAX + 2


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (Reply(200, b"<html>log in</html>"), "halt"),
        (Reply(200, b'{"status":"stored","event_id":"","sha256":"00"}'), "halt"),
        (Reply(302), "halt"),
        (Reply(401), "halt"),
        (Reply(404), "halt"),
        (Reply(413), "halt"),
        (Reply(413, json.dumps({"type": PROBLEM_TOO_LARGE}).encode()), "dead"),
        (Reply(422, json.dumps({"type": PROBLEM_WRONG_HASH}).encode()), "dead"),
        (Reply(400), "dead"),
        (Reply(429), "retry"),
        (Reply(500), "retry"),
        (Reply(503), "retry"),
    ],
)
async def test_an_answer_means_what_it_means_for_an_event(
    scripted: ScriptedBackend, store: SqliteStore, tmp_path: Path, reply: Reply, verdict: str
) -> None:
    record = await claimed(store, tmp_path / "spool", SMALL)
    scripted.script = lambda _request: reply
    answer = await upload(scripted, store, tmp_path, record)
    assert _verdict(answer, record) == verdict


def _verdict(answer: Answer, record: Record) -> str:
    receipt = record.id in answer.receipts
    return classify_response(answer.status, receipt=receipt, own_too_large=answer.too_large, alone=True).value


async def test_a_file_that_is_gone_or_damaged_makes_a_dead_letter(
    scripted: ScriptedBackend, store: SqliteStore, tmp_path: Path
) -> None:
    record = await claimed(store, tmp_path / "spool", SMALL)
    path = store.blobs.path_of(record.id)
    for content in (SMALL[::-1], b"", None):
        path.unlink() if content is None else path.write_bytes(content)
        assert _verdict(await upload(scripted, store, tmp_path, record), record) == "dead"
    path.mkdir()
    assert _verdict(await upload(scripted, store, tmp_path, record), record) == "retry"


async def test_a_backend_that_is_away_is_an_outage(store: SqliteStore, tmp_path: Path) -> None:
    record = await claimed(store, tmp_path / "spool", SMALL)
    answer = await upload(ScriptedBackend(url="http://127.0.0.1:1"), store, tmp_path, record)
    assert answer.status is TransportFailure.CONNECT


@given(size=st.sampled_from([PART_BYTES_MIN * 2**n for n in range(8)]), took_s=st.none() | st.floats(0, 100))
def test_parts_stay_between_their_limits(size: int, took_s: float | None) -> None:
    following = next_part_bytes(size, took_s)
    assert PART_BYTES_MIN <= following <= PART_BYTES_MAX
    assert following in (size // 2, size, size * 2)
    if took_s is None:
        assert following == max(size // 2, PART_BYTES_MIN)


EVENT_ID = "0b7a9c1e-0000-5000-8000-000000000001"


def an_event(blob: NewBlob) -> NewRecord:
    ref = BlobRef(sha256=blob.sha256, bytes=blob.bytes)
    payload = b"[%s]" % encode_ref(ref)
    body = encode_event(type="messages.upsert", chat_jid=None, payload=payload, blobs=[ref])
    return NewRecord(id=EVENT_ID, body=body, blobs=(blob,))


@pytest.mark.parametrize("status", [401, 404])
async def test_events_pass_a_blob_that_cannot_be_delivered(
    tmp_path: Path, scripted: ScriptedBackend, status: int
) -> None:
    """The blobs' door is broken; what has none goes, what has some follows when it is repaired."""
    is_broken = asyncio.Event()
    is_broken.set()
    scripted.script = lambda request: (
        Reply(status) if is_broken.is_set() and request.method == "PUT" else None
    )
    config = collector_config(tmp_path, scripted.url, gateways=gateway())
    opened: list[MeteredStore] = []

    async def open_store() -> MeteredStore:
        opened.append(await open_sqlite(config.data_folder, mark_lost=mark_lost))
        return opened[0]

    async with running(config, open_store) as collector:
        blob = blob_of(tmp_path / "spool", LARGE)
        await opened[0].put([an_event(blob)])
        await collector.post("/gateways/evo/loja-sp", message(1))
        await eventually(lambda: len(scripted.stored) == 1, "the event without a blob has passed")
        await eventually(lambda: _has_alert(collector, "blobs.halted"), "the blobs are halted")
        await eventually(lambda: _waiting(collector, 1), "the event without a blob is settled")
        document = await collector.status()
        assert document["outbox"]["blobs_waiting"] == 1
        assert (document["shipper"]["halted"], document["blob_shipper"]["halted"]) == (False, True)
        is_broken.clear()
        await eventually(lambda: len(scripted.stored) == 2, "the event with the blob has followed")
        assert scripted.blobs == {blob.sha256: LARGE}
        await eventually(lambda: _waiting(collector, 0), "all is settled")
        assert (await collector.outbox())["blobs_waiting"] == 0
        assert "blobs.halted" not in await collector.alerts()
    assert not (config.data_folder / "blobs" / blob.sha256).exists()


async def _has_alert(collector: Running, name: str) -> bool:
    return name in await collector.alerts()


async def _waiting(collector: Running, number: int) -> bool:
    return (await collector.outbox())["waiting"] == number


async def test_a_dead_blob_is_told_and_its_event_arrives_without_it(
    tmp_path: Path, scripted: ScriptedBackend
) -> None:
    too_large = json.dumps({"type": PROBLEM_TOO_LARGE}).encode()
    scripted.script = lambda request: Reply(413, too_large) if request.method == "PUT" else None
    config = collector_config(tmp_path, scripted.url, gateways=gateway())
    store = await open_sqlite(config.data_folder, mark_lost=mark_lost)
    await store.put([an_event(blob_of(tmp_path, SMALL))])
    await store.close()
    async with running(config) as collector:
        await eventually(lambda: EVENT_ID in scripted.stored, "the event has arrived")
        body = json.loads(scripted.stored[EVENT_ID])
        lost = {"sha256": sha256_of(SMALL), "bytes": len(SMALL), "mime": None, "lost": "413 body-too-large"}
        assert body["blobs"] == body["payload"] == [{"$blob": lost}]
        await eventually(lambda: _has_alert(collector, "blobs.dead"), "somebody is told")
        assert (await collector.outbox())["blobs_dead"] == 1
