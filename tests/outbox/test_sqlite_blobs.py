"""Blobs on the disk: durable before their records, swept after a kill, kept through upgrades and salvages."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from outbox import blob_files, sqlite_blobs
from outbox.blob_files import FOLDER_NAME, BlobFiles
from outbox.clock import ManualClock
from outbox.record import PutOutcome
from outbox.sqlite import SqliteStore, open_sqlite
from outbox.sqlite_engine import SqliteEngine
from outbox.sqlite_file import FILE_NAME
from outbox.store import StoreFull, StoreLimits
from outbox.verdict import Verdict
from tests.outbox.records import blob_of, claim, end_all, ended, ids, marked_lost, new, put_one, sha256_of

PICTURE = b"picture" * 1_000
FIRST_VERSION = Path(__file__).with_name("first_version.sql")


def first_version(folder: Path, *statements: str) -> None:
    """A file as the first release left it, closed in order."""
    folder.mkdir(parents=True)
    old = sqlite3.connect(folder / FILE_NAME)
    old.executescript("PRAGMA journal_mode = WAL;" + FIRST_VERSION.read_text())
    for statement in ("INSERT INTO ledger (one, epoch) VALUES (1, 'the-epoch')", *statements):
        old.execute(statement)
    old.commit()
    old.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / FOLDER_NAME).iterdir() if path.is_file())


async def test_a_file_of_the_first_version_is_upgraded_in_place(
    folder: Path, spool: Path, clock: ManualClock
) -> None:
    first_version(
        folder,
        "INSERT INTO ids VALUES (1, 'seen', x'', 'c', 1, 2), (2, 'dead', x'', 'c', 1, NULL)",
        "INSERT INTO ids VALUES (3, 'waits', x'0d', 'c', 1, NULL)",
        "INSERT INTO dead VALUES (1, 2, 3, 1, 422, 'why', 'l', x'64')",
        "INSERT INTO outbox VALUES (3, 1, 2, 503, 'away', 'l', x'626f6479')",
        "UPDATE ledger SET number = 7, waiting = 1, bytes = 4, dead = 1, seen = 1",
    )
    store = await open_sqlite(folder, clock)
    stats = await store.stats()
    assert (store.epoch, stats.salvaged) == ("the-epoch", "")
    assert (stats.waiting, stats.dead, stats.seen, stats.bytes) == (1, 1, 1, 4)
    assert await put_one(store, new("seen")) is PutOutcome.DUPLICATE
    assert await put_one(store, new("a", blobs=(blob_of(spool, PICTURE),))) is PutOutcome.STORED
    (record,) = await claim(store, clock)
    assert (record.id, record.body, record.attempts) == ("waits", b"body", 2)
    assert await end_all(store.blobs, clock, Verdict.DELIVERED) == 1
    assert ids(await claim(store, clock)) == ["a"]
    await store.close()
    again = await open_sqlite(folder, clock)
    assert len(await claim(again, clock)) == 2
    await again.close()


async def test_a_damaged_file_of_the_first_version_is_salvaged(folder: Path, clock: ManualClock) -> None:
    rows = [
        f"INSERT INTO {table}"
        for n in range(1, 51)
        for table in (
            f"ids VALUES ({n}, 'w{n}', x'', 'c', 1, NULL)",
            f"outbox VALUES ({n}, 1, 0, NULL, '', 'l', zeroblob(3000))",
        )
    ]
    first_version(folder, *rows, "UPDATE ledger SET waiting = 50, bytes = 150000")
    size = (folder / FILE_NAME).stat().st_size
    with (folder / FILE_NAME).open("r+b") as file:
        file.truncate(size * 2 // 3)
    store = await open_sqlite(folder, clock)
    assert 0 < (await store.stats()).waiting < 50
    await store.close()


async def test_bytes_name_and_row_become_durable_in_this_order(
    folder: Path, spool: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut then finds the row only with its file."""
    steps: list[str] = []
    fsync, rename, commit = os.fsync, Path.rename, SqliteEngine.commit

    def noted_fsync(descriptor: int) -> None:
        steps.append(f"fsync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def noted_rename(path: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(path, target)

    def noted_commit(engine: SqliteEngine) -> None:
        commit(engine)
        steps.append("commit")

    store = await open_sqlite(folder, clock)
    picture = blob_of(spool, PICTURE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", noted_fsync)
        patch.setattr(Path, "rename", noted_rename)
        patch.setattr(SqliteEngine, "commit", noted_commit)
        await put_one(store, new("a", blobs=(picture,)))
    wanted = ["fsync outbox", f"fsync {picture.path.name}", "rename", f"fsync {FOLDER_NAME}", "commit"]
    assert steps == wanted
    await store.close()


async def test_a_file_goes_only_after_the_commit_that_needs_it_no_more(
    folder: Path, spool: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_sqlite(folder, clock)
    await put_one(store, new("a", blobs=(blob_of(spool, PICTURE),)))
    await end_all(store.blobs, clock, Verdict.DELIVERED)
    (record,) = await claim(store, clock)
    steps: list[str] = []
    drop = BlobFiles.drop

    def noted_drop(files: BlobFiles, sha256s: Iterable[str]) -> None:
        steps.append("drop")
        drop(files, sha256s)

    def trace(statement: str) -> None:
        if statement == "COMMIT":
            steps.append("commit")

    await (await store._thread.submit(lambda e: e.connection.set_trace_callback(trace), bare=True))
    with monkeypatch.context() as patch:
        patch.setattr(BlobFiles, "drop", noted_drop)
        assert await store.settle([ended(record, Verdict.DELIVERED, clock.now())]) == 1
    assert steps == ["commit", "drop"]
    assert files_in(folder) == []
    await store.close()


async def test_a_file_stays_when_the_transaction_fails(
    folder: Path, spool: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_sqlite(folder, clock)
    await put_one(store, new("a", blobs=(blob_of(spool, PICTURE),)))
    await end_all(store.blobs, clock, Verdict.DELIVERED)
    (record,) = await claim(store, clock)
    with monkeypatch.context() as patch:
        patch.setattr(SqliteEngine, "commit", _no_power)
        with pytest.raises(ZeroDivisionError):
            await store.settle([ended(record, Verdict.DELIVERED, clock.now())])
    await put_one(store, new("b"))
    assert files_in(folder) == [sha256_of(PICTURE)]
    assert await store.settle([ended(record, Verdict.DELIVERED, clock.now())]) == 1
    assert files_in(folder) == []
    await store.close()


def _no_power(_engine: SqliteEngine) -> None:
    raise ZeroDivisionError


async def test_what_a_killed_put_left_is_swept_at_the_start(
    folder: Path, spool: Path, clock: ManualClock
) -> None:
    store = await open_sqlite(folder, clock)
    await put_one(store, new("a", blobs=(blob_of(spool, PICTURE),)))
    await store.close()
    orphan, others = folder / FOLDER_NAME / ("0" * 64), folder / FOLDER_NAME / "tmp"
    orphan.write_bytes(b"never committed")
    others.mkdir()
    (others / "half").write_bytes(b"of somebody else")
    store = await open_sqlite(folder, clock)
    assert files_in(folder) == [sha256_of(PICTURE)]
    assert (others / "half").exists()
    await store.close()


async def test_a_put_that_counts_on_a_file_keeps_it_from_a_delivery(
    folder: Path, spool: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its file and its row another record's delivery forgets the blob."""
    store = await open_sqlite(folder, clock)
    await put_one(store, new("a", blobs=(blob_of(spool, PICTURE),)))
    await end_all(store.blobs, clock, Verdict.DELIVERED)
    (record,) = await claim(store, clock)
    kept, delivered = asyncio.Event(), asyncio.Event()
    to_thread = asyncio.to_thread

    async def slowly(work: Callable[..., object], *arguments: object) -> None:
        await to_thread(work, *arguments)
        kept.set()
        await delivered.wait()

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "to_thread", slowly)
        putting = asyncio.create_task(put_one(store, new("b", blobs=(blob_of(spool, PICTURE),))))
        await kept.wait()
        await store.settle([ended(record, Verdict.DELIVERED, clock.now())])
        delivered.set()
        assert await putting is PutOutcome.STORED
    (again,) = await claim(store.blobs, clock)
    assert store.blobs.path_of(again.id).read_bytes() == PICTURE
    await store.close()


async def test_a_cancelled_put_leaves_no_file_or_a_whole_record(
    folder: Path, spool: Path, clock: ManualClock
) -> None:
    store = await open_sqlite(folder, clock)
    for number in range(20):
        putting = asyncio.create_task(
            put_one(store, new(f"{number}", blobs=(blob_of(spool, b"%d" % number),)))
        )
        for _ in range(number):
            await asyncio.sleep(0)
        putting.cancel()
        await asyncio.wait([putting])
    await store.close()
    store = await open_sqlite(folder, clock)
    waiting = [record.id for record in await claim(store.blobs, clock)]
    assert files_in(folder) == sorted(waiting)
    await store.close()


async def test_neighbours_of_a_failing_put_keep_their_blobs(
    folder: Path, spool: Path, clock: ManualClock
) -> None:
    store = await open_sqlite(folder, clock)
    puts = [store.put([new(f"{n}", blobs=(blob_of(spool, b"%d" % n),))]) for n in range(5)]
    bad = store.put([new(lambda _: str(1 // 0), blobs=(blob_of(spool, b"bad"),))])
    results = await asyncio.gather(*puts, bad, return_exceptions=True)
    assert isinstance(results[-1], ZeroDivisionError)
    await store.stats()
    assert files_in(folder) == sorted(sha256_of(b"%d" % n) for n in range(5))
    assert await end_all(store.blobs, clock, Verdict.DELIVERED) == 5
    assert len(await claim(store, clock)) == 5
    await store.close()


@pytest.mark.parametrize("verdict", [Verdict.DELIVERED, Verdict.DEAD])
async def test_a_kill_between_the_end_of_a_blob_and_its_records_is_made_good(
    folder: Path, spool: Path, clock: ManualClock, verdict: Verdict
) -> None:
    store = await open_sqlite(folder, clock, mark_lost=marked_lost)
    picture = blob_of(spool, PICTURE)
    await store.put([new(f"a{n}", blobs=(picture,)) for n in range(150)])
    (blob,) = await claim(store.blobs, clock)
    ending = [ended(blob, verdict, clock.now(), reason="r")]
    await (await store._thread.submit(lambda engine: sqlite_blobs.settle(engine, ending)))
    await (await store._thread.submit(lambda engine: sqlite_blobs.free(engine, 60)))
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-shm"))
    await store.close()
    store = await open_sqlite(copy, clock, mark_lost=marked_lost)
    assert len(await claim(store, clock)) == 60
    assert await claim(store.blobs, clock) == []
    bodies = {record.body for record in await claim(store, clock)}
    assert bodies == {b"{}" if verdict is Verdict.DELIVERED else marked_lost(b"{}", picture.sha256, "r")}
    assert (await store.stats()).claimed == 150
    await store.close()


async def test_a_dead_blob_that_is_dropped_before_all_its_records_are_free_leaves_none_behind(
    folder: Path, spool: Path, clock: ManualClock
) -> None:
    """A kill or the operator may come between the blob's death and the freeing, which goes page by page."""
    store = await open_sqlite(folder, clock, mark_lost=marked_lost)
    picture = blob_of(spool, PICTURE)
    await store.put([new(f"a{n}", blobs=(picture,)) for n in range(250)])
    (blob,) = await claim(store.blobs, clock)
    ending = [ended(blob, Verdict.DEAD, clock.now(), reason="r")]
    await (await store._thread.submit(lambda engine: sqlite_blobs.settle(engine, ending)))
    await (await store._thread.submit(lambda engine: sqlite_blobs.free(engine, 60)))
    await store.close()
    store = await open_sqlite(folder, clock, mark_lost=marked_lost)
    dropped = await (await store._thread.submit(lambda engine: sqlite_blobs.dead_drop(engine, None)))
    assert dropped == 0, "not while records wait for it"
    assert await store.blobs.dead_drop([picture.sha256]) == 1
    records = await claim(store, clock)
    assert len(records) == 250
    assert {record.body for record in records} == {marked_lost(b"{}", picture.sha256, "r")}
    assert files_in(folder) == []
    await store.close()


async def test_a_salvage_amid_freeing_frees_the_rest(folder: Path, spool: Path, clock: ManualClock) -> None:
    store = await open_sqlite(folder, clock, mark_lost=marked_lost)
    picture = blob_of(spool, PICTURE)
    await store.put([new("a", blobs=(picture,))])
    (blob,) = await claim(store.blobs, clock)
    ending = [ended(blob, Verdict.DEAD, clock.now(), reason="r")]
    await (await store._thread.submit(lambda engine: sqlite_blobs.settle(engine, ending)))
    opened = store._engine.opened
    await (await store._thread.submit(lambda engine: engine.reopen(opened, "integrity"), bare=True))
    assert await claim(store.blobs, clock) == []
    (record,) = await claim(store, clock)
    assert record.body == marked_lost(b"{}", picture.sha256, "r")
    await store.close()


async def test_after_a_salvage_every_file_is_uploaded_and_nothing_waits_for_ever(
    folder: Path, spool: Path, clock: ManualClock
) -> None:
    store = await open_sqlite(folder, clock)
    await store.put([new(f"a{n}", blobs=(blob_of(spool, b"%d" % n),)) for n in range(30)])
    await _lose(store, "DELETE FROM blobs WHERE rowid > 10")
    opened = store._engine.opened
    await (await store._thread.submit(lambda engine: engine.reopen(opened, "integrity"), bare=True))
    assert "30 waiting" in (await store.stats()).salvaged
    assert len(await claim(store, clock)) == 20, "their blobs' rows are lost"
    blobs = await claim(store.blobs, clock)
    assert sorted(ids(blobs)) == files_in(folder) == sorted(sha256_of(b"%d" % n) for n in range(30))
    await store.blobs.settle([ended(blob, Verdict.DELIVERED, clock.now()) for blob in blobs])
    assert len(await claim(store, clock)) == 10
    assert (await store.stats()).bytes == 30 * 2 + sum(len(b"%d" % n) for n in range(10))
    assert len(files_in(folder)) == 10, "those that no record refers to are gone"
    await store.close()


async def _lose(store: SqliteStore, statement: str) -> None:
    await (await store._thread.submit(lambda engine: engine.connection.execute(statement)))


async def test_a_full_disk_refuses_the_blob_and_its_record(
    folder: Path, spool: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_sqlite(folder, clock, StoreLimits(reserve_bytes=0))

    def full(_folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(blob_files, "sync_folder", full)
        with pytest.raises(StoreFull):
            await put_one(store, new("a", blobs=(blob_of(spool, PICTURE),)))
    assert (await store.stats()).waiting == 0
    assert files_in(folder) == []
    assert await put_one(store, new("a", blobs=(blob_of(spool, PICTURE),))) is PutOutcome.STORED
    await store.close()
