"""Blobs at the backend's door: signed parts, resumed, verified, kept once, gone when nobody needs them."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from obstore.store import LocalStore

from contracts.blob_upload import PART_BYTES_MAX, blob_path, signed_text
from contracts.blobs import BlobRef, blob_event_id, encode_ref
from contracts.signing import sign
from ingest import blob_statements as sql
from ingest import blob_store
from ingest.blob_ledger import BlobLedger
from ingest.blob_spool import STALLED_S
from ingest.blob_store import BlobStore
from ingest.blobs import INCOMING_NAME, KEPT_NAME
from ingest.config import IngestConfig
from ingest.row import Committed
from tests.collector.running import eventually
from tests.ingest.backend import SECRET, Backend, an_id, backend, event
from tests.support.blobs import MIME, headers_for, part_of, sha256_of
from tests.support.s3 import Bucket, bucket

CONTENT = bytes(range(256)) * 100
SHA256 = sha256_of(CONTENT)
DAY_S = 86_400
STANDS_STILL = """
SELECT clock_timestamp() - state_change > make_interval(secs => $1) FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = 'zaplake-ingest-blobs'
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
async def b(dsn: str, folder: Path) -> AsyncIterator[Backend]:
    async with backend(dsn, blob_folder=folder) as running:
        yield running


async def put(
    b: Backend,
    content: bytes = CONTENT,
    first: int = 0,
    size: int = PART_BYTES_MAX,
    *,
    sha256: str | None = None,
    secret: bytes = SECRET,
) -> httpx.Response:
    content_range, body = part_of(content, first, size)
    name = sha256 or sha256_of(content)
    headers = headers_for(secret, name, content_range, body)
    return await b.client.put(blob_path(name), content=body, headers=headers)


async def ask(b: Backend, content: bytes = CONTENT) -> httpx.Response:
    name = sha256_of(content)
    headers = headers_for(SECRET, name, f"bytes */{len(content)}", b"")
    return await b.client.put(blob_path(name), headers=headers)


async def head(b: Backend, sha256: str = SHA256) -> httpx.Response:
    headers = headers_for(SECRET, sha256, "", b"", method="HEAD")
    return await b.client.head(blob_path(sha256), headers=headers)


def kept(folder: Path) -> dict[str, bytes]:
    files = [path for path in (folder / KEPT_NAME).rglob("*") if path.is_file()]
    return {path.name: path.read_bytes() for path in files}


def incoming(folder: Path) -> list[str]:
    return [path.name for path in (folder / INCOMING_NAME).rglob("*") if path.is_file()]


async def test_a_blob_is_stored_once(b: Backend, folder: Path) -> None:
    first, again = await put(b), await put(b)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == {"status": "stored", "event_id": blob_event_id(SHA256), "sha256": SHA256}
    assert again.json()["status"] == "duplicate"
    assert kept(folder) == {SHA256: CONTENT}
    assert incoming(folder) == []
    (row,) = await b.fetch("SELECT * FROM lake.blobs")
    assert (row["sha256"], row["bytes"], row["mime"]) == (SHA256, len(CONTENT), MIME)


async def test_parts_are_resumed_where_they_ended(b: Backend, folder: Path) -> None:
    assert (await ask(b)).json()["offset"] == 0
    answer = await put(b, first=0, size=10_000)
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (202, "10000")
    assert answer.json() == {
        "status": "partial",
        "event_id": blob_event_id(SHA256),
        "sha256": SHA256,
        "offset": 10_000,
    }
    assert (await put(b, first=20_000, size=5_600)).json()["offset"] == 10_000, "a gap is not filled"
    assert (await put(b, first=0, size=10_000)).json()["offset"] == 10_000, "a copy adds nothing"
    assert (await put(b, first=5_000, size=15_000)).json()["offset"] == 20_000, "an overlap is cut"
    assert (await head(b)).headers["Upload-Offset"] == "20000"
    assert (await head(b)).status_code == 404
    assert kept(folder) == {}
    assert (await put(b, first=20_000)).status_code == 201
    assert kept(folder) == {SHA256: CONTENT}
    answer = await head(b)
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (200, str(len(CONTENT)))
    assert (await ask(b)).json()["status"] == "duplicate"


async def test_a_new_process_goes_on_with_what_the_last_one_has(dsn: str, folder: Path) -> None:
    async with backend(dsn, blob_folder=folder) as b:
        await put(b, first=0, size=10_000)
    (folder / INCOMING_NAME / "another-boot").mkdir()
    async with backend(dsn, blob_folder=folder) as b:
        assert (await ask(b)).json()["offset"] == 10_000
        assert (await put(b, first=10_000)).status_code == 201
    assert kept(folder) == {SHA256: CONTENT}
    assert not (folder / INCOMING_NAME / "another-boot").exists()


async def test_processes_of_one_machine_share_what_came_in(dsn: str, folder: Path) -> None:
    async with backend(dsn, blob_folder=folder) as one, backend(dsn, blob_folder=folder) as other:
        assert (await put(one, first=0, size=10_000)).json()["offset"] == 10_000
        assert (await put(other, first=10_000, size=10_000)).json()["offset"] == 20_000
        assert (await put(one, first=20_000)).status_code == 201
        assert (await put(other)).status_code == 200
    assert kept(folder) == {SHA256: CONTENT}


async def test_drafts_of_killed_processes_go_after_a_day(dsn: str, folder: Path) -> None:
    shelf = folder / KEPT_NAME / SHA256[:2]
    shelf.mkdir(parents=True)
    old, young = shelf / f"{SHA256}#1", shelf / f"{SHA256}#2"
    for draft in (old, young):
        draft.write_bytes(b"half")
    os.utime(old, (0, 0))
    abandoned = "0" * 64
    async with backend(dsn, blob_folder=folder) as b:
        (boot,) = (folder / INCOMING_NAME).iterdir()
        for name in (abandoned, SHA256):
            (boot / name).write_bytes(b"half")
        os.utime(boot / abandoned, (0, 0))
        assert b.service.blobs is not None
        b.service.blobs.store.tidy()
        b.service.blobs.spool.forget_abandoned()
        assert [path.name for path in shelf.iterdir()] == [young.name]
        assert incoming(folder) == [SHA256]


async def test_bytes_that_are_not_those_of_the_path_are_refused(b: Backend, folder: Path) -> None:
    answer = await put(b, content=CONTENT[::-1], sha256=SHA256)
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:zaplake:problem:wrong-hash"
    assert (kept(folder), incoming(folder)) == ({}, [])
    assert (await put(b)).status_code == 201


async def test_who_has_no_secret_can_neither_store_nor_shorten_nor_replace(b: Backend, folder: Path) -> None:
    content_range, body = part_of(CONTENT, 0, len(CONTENT))
    right = headers_for(SECRET, SHA256, content_range, body)
    shorter = f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT) + 1}"
    forged = [
        (right | {"X-Signature": "0" * 64}, body),
        (right, body[:-1] + b"x"),
        (right | {"Content-Range": shorter}, body),
        (right | {"Content-Type": "text/html"}, body),
        (headers_for(b"another secret", SHA256, content_range, body), body),
    ]
    for headers, content in forged:
        answer = await b.client.put(blob_path(SHA256), content=content, headers=headers)
        assert answer.status_code == 401
    other = sha256_of(b"other")
    elsewhere = await b.client.put(blob_path(other), content=body, headers=right)
    assert elsewhere.status_code == 401
    assert (kept(folder), incoming(folder)) == ({}, [])
    unsigned = await b.client.head(blob_path(SHA256))
    assert unsigned.status_code == 401


@pytest.mark.parametrize(
    ("path", "content_range", "method", "status"),
    [
        (blob_path("ab"), "bytes 0-1/2", "PUT", 404),
        (blob_path(SHA256.upper()), "bytes 0-1/2", "PUT", 404),
        (blob_path(SHA256), "bytes 0-1/2", "POST", 405),
        (blob_path(SHA256), "bytes 0-1/2", "GET", 405),
        (blob_path(SHA256), "", "PUT", 400),
        (blob_path(SHA256), "bytes 5-1/20", "PUT", 400),
        (blob_path(SHA256), "bytes 0-2/2", "PUT", 400),
        (blob_path(SHA256), "bytes 0-5/20", "PUT", 400),
        (blob_path(SHA256), "bytes 0-1/999999999999", "PUT", 413),
    ],
)
async def test_odd_requests_are_refused(
    b: Backend, path: str, content_range: str, method: str, status: int
) -> None:
    headers = headers_for(SECRET, SHA256, content_range, b"xy")
    answer = await b.client.request(method, path, content=b"xy", headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_another_id_than_the_blobs_own_is_refused(b: Backend) -> None:
    event_id = an_id()
    text = signed_text("PUT", SHA256, "bytes */2", MIME, sha256_of(b""))
    headers = headers_for(SECRET, SHA256, "bytes */2", b"")
    headers |= {"X-Event-Id": event_id, "X-Signature": sign(SECRET, event_id, text)}
    answer = await b.client.put(blob_path(SHA256), headers=headers)
    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:zaplake:problem:bad-event-id"


async def test_more_than_the_blob_has_begins_anew(b: Backend, folder: Path) -> None:
    too_much = CONTENT + b"0123456789"
    assert (await put(b, content=too_much, size=len(CONTENT) + 5, sha256=SHA256)).status_code == 202
    assert (await put(b)).status_code == 201
    assert kept(folder) == {SHA256: CONTENT}


async def test_an_event_without_its_references_is_not_stored(b: Backend) -> None:
    body = event()[:-1] + b',"blobs":[' + encode_ref(BlobRef(sha256=SHA256, bytes=1)) + b"]}"
    event_id = an_id()
    await b.fetch("ALTER TABLE lake.blob_refs RENAME TO elsewhere")
    assert (await b.post(event_id, body)).status_code == 503
    assert await b.fetch("SELECT * FROM lake.event_ids") == []
    await b.fetch("ALTER TABLE lake.elsewhere RENAME TO blob_refs")
    assert (await b.post(event_id, body)).status_code == 201
    assert len(await b.fetch("SELECT * FROM lake.blob_refs")) == 1


async def test_a_part_above_the_limit_is_refused_and_the_door_goes_on(b: Backend) -> None:
    large = bytes(PART_BYTES_MAX + 1)
    assert (await put(b, content=large, size=len(large))).status_code == 413
    assert b.service.doors.budget.bytes_used == 0
    assert (await put(b)).status_code == 201


async def test_large_blobs_come_in_parts(b: Backend, folder: Path) -> None:
    large = os.urandom(PART_BYTES_MAX + 1_000_000)
    assert (await put(b, content=large)).json()["offset"] == PART_BYTES_MAX
    assert (await put(b, content=large, first=PART_BYTES_MAX)).status_code == 201
    assert kept(folder) == {sha256_of(large): large}


async def test_two_requests_for_one_blob_are_harmless(b: Backend, folder: Path) -> None:
    assert b.service.blobs is not None
    with b.service.blobs.spool.holding(SHA256):
        refused = await put(b)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
    assert (await put(b)).status_code == 201
    assert kept(folder) == {SHA256: CONTENT}


async def test_bytes_and_names_are_durable_before_the_answer(
    b: Backend, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(blob_store, "sync_file", synced.append)
    monkeypatch.setattr(blob_store, "sync_folder", synced.append)
    await put(b)
    kept_in = folder / KEPT_NAME
    assert synced == [kept_in / SHA256[:2] / SHA256, kept_in / SHA256[:2], kept_in, folder]


async def test_a_disk_that_fails_is_an_outage_and_nothing_is_lost(
    b: Backend, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(blob_store, "sync_file", full)
        assert (await put(b)).status_code == 503
    assert await b.fetch("SELECT * FROM lake.blobs") == []
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_: full(folder))
        assert (await put(b, content=b"other")).status_code == 503
    assert (await ask(b)).json()["offset"] == len(CONTENT), "the bytes are still there"
    assert (await put(b)).status_code == 201


async def test_a_full_spool_is_an_outage(dsn: str, folder: Path) -> None:
    async with backend(dsn, blob_folder=folder, blob_bytes_max=1_000, blob_spool_bytes_max=1_000) as b:
        content = bytes(800)
        assert (await put(b, content=content, size=600)).status_code == 202
        assert (await put(b, content=b"1" * 500, size=401)).status_code == 503
        assert (await put(b, content=content, first=600)).status_code == 201
        assert (await put(b, content=b"1" * 500)).status_code == 201


async def test_blobs_that_fill_the_spool_together_do_not_block_each_other(dsn: str, folder: Path) -> None:
    """None of them could end, and a day would pass until they count as abandoned."""
    async with backend(dsn, blob_folder=folder, blob_bytes_max=1_000, blob_spool_bytes_max=1_000) as b:
        one, other = bytes(800), b"1" * 800
        for content in (one, other):
            assert (await put(b, content=content, size=500)).status_code == 202
        assert (await put(b, content=one, first=500)).status_code == 503, "the other one was just added to"
        (boot,) = (folder / INCOMING_NAME).iterdir()
        still_s = time.time() - STALLED_S - 1
        os.utime(boot / sha256_of(other), (still_s, still_s))
        assert (await put(b, content=one, first=500)).status_code == 201
        assert (await ask(b, content=other)).json()["offset"] == 0
        assert (await put(b, content=other)).status_code == 201


async def test_what_stalls_while_it_is_held_is_not_forgotten(dsn: str, folder: Path) -> None:
    async with backend(dsn, blob_folder=folder) as b:
        await put(b, size=10_000)
        assert b.service.blobs is not None
        spool = b.service.blobs.spool
        (boot,) = (folder / INCOMING_NAME).iterdir()
        os.utime(boot / SHA256, (0, 0))
        with spool.holding(SHA256):
            spool.forget_abandoned()
        assert (await put(b, first=10_000)).status_code == 201


async def test_a_spool_that_somebody_removed_is_made_again(b: Backend, folder: Path) -> None:
    """Another machine on the same folder takes it for that of an earlier boot."""
    shutil.rmtree(folder / INCOMING_NAME)
    assert (await put(b, size=10_000)).status_code == 202
    assert (await put(b, first=10_000)).status_code == 201


async def test_a_file_that_goes_while_room_is_looked_for_is_no_failure(
    b: Backend, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another request has just ended its blob."""
    (boot,) = (folder / INCOMING_NAME).iterdir()
    (boot / ("0" * 64)).symlink_to("nowhere")
    assert (await put(b)).status_code == 201


async def test_a_backend_without_a_folder_has_no_such_door(dsn: str) -> None:
    async with backend(dsn) as b:
        assert (await put(b)).status_code == 404


async def test_an_event_and_its_blobs_are_one_commit(b: Backend) -> None:
    lost = BlobRef(sha256=sha256_of(b"lost"), bytes=4, lost="refused: 413")
    refs = [BlobRef(sha256=SHA256, bytes=len(CONTENT), mime=MIME), lost]
    blobs = b'"blobs":[' + b",".join(map(encode_ref, refs)) + b"]"
    body = event()[:-1] + b"," + blobs + b"}"
    event_id, plain_id = an_id(), an_id()
    assert (await b.post(event_id, body)).status_code == 201
    assert (await b.post(event_id, body)).status_code == 200
    assert (await b.post(plain_id, event())).status_code == 201
    line = b'{"event_id":"%s",' % an_id().encode() + body[1:]
    assert (await b.post_batch(line, line)).status_code == 200
    rows = await b.fetch(
        "SELECT event_id::text, sha256, lost FROM lake.blob_refs WHERE event_id = $1 ORDER BY lost", event_id
    )
    assert [(row["sha256"], row["lost"]) for row in rows] == [
        (lost.sha256, "refused: 413"),
        (SHA256, None),
    ]
    assert await b.count() == 3
    (count,) = await b.fetch("SELECT count(*)::int AS n FROM lake.blob_refs")
    assert count["n"] == 4


async def age(b: Backend, days: int) -> None:
    await b.fetch("UPDATE lake.blobs SET asked_at = asked_at - make_interval(days => $1)", days)


async def sweep(b: Backend) -> int:
    assert b.service.blobs is not None
    return await b.service.blobs.ledger.sweep()


async def test_only_what_no_event_has_for_the_grace_is_removed(b: Backend, folder: Path) -> None:
    contents = [b"referred", b"young", b"asked", b"old"]
    for content in contents:
        await put(b, content=content)
    referred = encode_ref(BlobRef(sha256=sha256_of(b"referred"), bytes=8))
    await b.post(an_id(), event()[:-1] + b',"blobs":[' + referred + b"]}")
    await age(b, 29)
    assert await sweep(b) == 0
    await age(b, 2)
    await put(b, content=b"asked")
    await b.fetch("UPDATE lake.blobs SET asked_at = now() WHERE sha256 = $1", sha256_of(b"young"))
    assert await sweep(b) == 1
    assert sorted(kept(folder).values()) == [b"asked", b"referred", b"young"]
    assert (await put(b, content=b"old")).status_code == 201
    assert len(kept(folder)) == 4


@pytest.mark.parametrize(
    ("last_beat_days", "oldest_age_s", "removed"),
    [
        (0, None, 1),
        (0, 60.0, 1),
        (0, 30.5 * 86400, 0),
        (30.5, None, 0),
        (28, 86400.0, 1),
        (28, 3 * 86400.0, 0),
        (0, 1e300, 0),  # no age at all
        (0, -1e300, 1),
    ],
)
async def test_nothing_is_swept_whose_event_a_collector_may_hold(
    b: Backend, folder: Path, last_beat_days: float, oldest_age_s: float | None, removed: int
) -> None:
    """Its line went down between the blob and the event, longer ago than the grace."""
    await put(b, content=b"before its event")
    await age(b, 31)
    await b.fetch(
        "INSERT INTO lake.collectors (name, boot, beat, report, last_seen_at) SELECT 'edge', 'b', 1, "
        "jsonb_build_object('oldest_age_s', $1::float8), now() - make_interval(secs => $2::float8 * 86400)",
        oldest_age_s,
        last_beat_days,
    )
    assert await sweep(b) == removed
    assert len(kept(folder)) == 1 - removed


async def test_nothing_is_swept_right_after_a_start(
    b: Backend, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We may have been away for longer than the grace: the events that waited for that come first."""
    assert b.service.blobs is not None
    swept: list[int] = []
    blobs, sweep_once = replace(b.service.blobs, every_s=0.01), b.service.blobs.ledger.sweep

    async def counted() -> int:
        swept.append(await sweep_once())
        return swept[-1]

    monkeypatch.setattr(blobs.ledger, "sweep", counted)
    await put(b)
    await age(b, 31)
    (boot,) = (folder / INCOMING_NAME).iterdir()
    abandoned = boot / ("0" * 64)
    for calm_s, is_swept in ((3600.0, False), (0.0, True)):
        monkeypatch.setattr("ingest.blobs.CALM_S", calm_s)
        running = asyncio.create_task(blobs.run())
        for _ in range(2):  # the second one goes in a second round
            abandoned.write_bytes(b"half")
            os.utime(abandoned, (0, 0))
            await eventually(lambda: not abandoned.exists(), "a round")
        if is_swept:
            await eventually(lambda: swept != [], "the sweep")
        running.cancel()
        await asyncio.wait([running])
        assert (kept(folder) == {}, bool(swept)) == (is_swept, is_swept)


async def test_the_sweep_goes_through_page_by_page(
    b: Backend, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.blob_ledger.ROWS_PER_ROUND", 2)
    for number in range(5):
        await put(b, content=b"%d" % number)
    await age(b, 31)
    assert [await sweep(b) for _ in range(3)] == [2, 2, 1]
    assert kept(folder) == {}


@pytest.mark.parametrize(
    ("statement", "arguments", "wanted"),
    [
        (sql.PAGE, ("", datetime.now(UTC), 500), ["blobs_pkey", "blob_refs_sha256_idx"]),
        (sql.ASK, (SHA256,), ["blobs_pkey"]),
        (sql.CONDEMN, (SHA256, datetime.now(UTC)), ["blobs_pkey", "blob_refs_sha256_idx"]),
        (sql.REMOVE, (SHA256,), ["blobs_pkey", "blob_refs_sha256_idx"]),
    ],
)
async def test_hot_statements_go_by_an_index(
    dsn: str, statement: str, arguments: tuple[object, ...], wanted: list[str]
) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            """INSERT INTO lake.blobs (sha256, bytes)
               SELECT encode(sha256(n::text::bytea), 'hex'), 1 FROM generate_series(1, 20000) n;
               INSERT INTO lake.blob_refs (event_id, sha256) SELECT gen_random_uuid(), sha256 FROM lake.blobs;
               ANALYZE lake.blobs; ANALYZE lake.blob_refs"""
        )
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {statement}", *arguments))
    finally:
        await connection.close()
    assert "Seq Scan" not in plan, plan
    for index in wanted:
        assert index in plan, plan


async def test_a_kill_between_object_and_row_is_made_good(b: Backend, folder: Path) -> None:
    await put(b)
    await b.fetch("UPDATE lake.blobs SET condemned_at = now()")
    (path,) = [path for path in (folder / KEPT_NAME).rglob("*") if path.is_file()]
    path.unlink()
    assert (await ask(b)).json() | {"event_id": ""} == {
        "status": "partial",
        "event_id": "",
        "sha256": SHA256,
        "offset": 0,
    }
    assert (await put(b)).status_code == 201, "what is condemned counts as gone"
    assert kept(folder) == {SHA256: CONTENT}
    await b.fetch("UPDATE lake.blobs SET condemned_at = now()")
    assert await sweep(b) == 1
    assert await b.fetch("SELECT * FROM lake.blobs") == []


class SlowStore(BlobStore):
    """Takes longer than a statement may: until its transaction has stood still for so long, or is gone."""

    still_s = 0.5

    def __init__(self, folder: Path, connection: asyncpg.Connection[Any]) -> None:
        super().__init__(LocalStore(folder, mkdir=True), folder)
        self._connection = connection

    async def put(self, sha256: str, path: Path) -> None:
        while await self._connection.fetchval(STANDS_STILL, self.still_s) is False:
            pass
        await super().put(sha256, path)


async def test_a_blob_that_takes_long_to_store_is_stored(dsn: str, tmp_path: Path) -> None:
    connection = await asyncpg.connect(dsn)
    config = IngestConfig(dsn=dsn, secrets=(SECRET,), commit_s_max=0.1)
    ledger = BlobLedger(config, SlowStore(tmp_path / KEPT_NAME, connection))
    (tmp_path / "part").write_bytes(CONTENT)
    try:
        assert await ledger.keep(SHA256, len(CONTENT), MIME, tmp_path / "part") is Committed.STORED
        assert await ledger.ask(SHA256)
    finally:
        await ledger.close()
        await connection.close()


async def test_what_is_referred_to_meanwhile_is_pardoned(b: Backend, folder: Path) -> None:
    await put(b)
    await b.fetch("UPDATE lake.blobs SET condemned_at = now()")
    await b.fetch("INSERT INTO lake.blob_refs (event_id, sha256) VALUES ($1, $2)", an_id(), SHA256)
    assert await sweep(b) == 0
    (row,) = await b.fetch("SELECT condemned_at FROM lake.blobs")
    assert row["condemned_at"] is None
    assert kept(folder) == {SHA256: CONTENT}


async def test_what_is_referred_to_when_its_bytes_are_gone_is_not_called_stored(
    b: Backend, folder: Path
) -> None:
    """A kill behind the object's end and before the row's; then an event comes that still counts on it."""
    await put(b)
    await b.fetch("UPDATE lake.blobs SET condemned_at = now()")
    (path,) = [path for path in (folder / KEPT_NAME).rglob("*") if path.is_file()]
    path.unlink()
    await b.fetch("INSERT INTO lake.blob_refs (event_id, sha256) VALUES ($1, $2)", an_id(), SHA256)
    assert await sweep(b) == 0
    assert (await ask(b)).json()["status"] == "partial", "who has the bytes must bring them"
    assert await b.fetch("SELECT * FROM lake.blobs") == []
    assert (await put(b)).status_code == 201
    assert kept(folder) == {SHA256: CONTENT}


@pytest.fixture
async def s3(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bucket]:
    async with bucket() as served:
        for name, value in {
            "AWS_ENDPOINT_URL": served.url,
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "key",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        yield served


async def test_blobs_go_to_a_bucket(dsn: str, folder: Path, s3: Bucket) -> None:
    large = os.urandom(PART_BYTES_MAX)
    async with backend(dsn, blob_folder=folder, blob_store_url="s3://lake/media") as b:
        s3.is_away = True
        assert (await put(b)).status_code == 503
        assert await b.fetch("SELECT * FROM lake.blobs") == []
        s3.is_away = False
        assert (await put(b)).status_code == 201
        assert (await put(b, content=large)).status_code == 201
        names = {
            content: f"/lake/media/{sha[:2]}/{sha}"
            for content in (CONTENT, large)
            for sha in [sha256_of(content)]
        }
        assert s3.objects == {name: content for content, name in names.items()}
        assert s3.largest_body <= blob_store.CHUNK_BYTES, "memory is bounded"
        await age(b, 31)
        assert await sweep(b) == 2
        assert s3.objects == {}
    assert kept(folder) == {}
