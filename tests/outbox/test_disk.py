"""A disk that is full, slow or held by somebody: puts are refused, shipping goes on, nothing restarts."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outbox.clock import ManualClock
from outbox.fsync import PROBE_NAME, fdatasync_s
from outbox.record import PutOutcome
from outbox.reserve import Reserve
from outbox.sqlite import SqliteStore, open_sqlite
from outbox.sqlite_file import FILE_NAME
from outbox.sqlite_room import RESERVE_NAME
from outbox.sqlite_version import described, has_wal_reset_bug
from outbox.store import StoreError, StoreFull, StoreLimits, StoreUnavailable
from outbox.verdict import Verdict
from tests.outbox.asking import ask
from tests.outbox.records import MIB, claim, end_all, ended, ids, new, put_ids, put_one
from tests.support.score import Score
from tests.support.small_disk import fill as fill_disk
from tests.support.small_disk import needed_disk, no_file_above

LIMITS = StoreLimits(reserve_bytes=MIB)
DEADLINE_S = 20.0
FULL_ROUNDS = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


@pytest.fixture
async def sqlite(folder: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = await open_sqlite(folder, clock, LIMITS)
    yield store
    await store.close()


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The operating system finds no room for a reserve until the patch is undone."""

    def refuse(_descriptor: int, _offset: int, _length: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    return monkeypatch


async def fill(store: SqliteStore, prefix: str, size: int = 4_000) -> list[str]:
    """Put until it is refused; returns the ids that were acknowledged."""
    acknowledged: list[str] = []
    with contextlib.suppress(StoreFull):
        while True:
            id_ = f"{prefix}-{len(acknowledged)}"
            await put_one(store, new(id_, b"x" * size))
            acknowledged.append(id_)
    return acknowledged


async def put_when_possible(store: SqliteStore, id_: str) -> float:
    """Put as a gateway does, again and again; returns how many seconds it took."""
    started_s = time.monotonic()
    while True:
        try:
            await put_one(store, new(id_))
            return time.monotonic() - started_s
        except StoreUnavailable:
            assert time.monotonic() - started_s < DEADLINE_S, "does not heal"
            await asyncio.sleep(0.05)


async def ship_all(store: SqliteStore, clock: ManualClock) -> list[str]:
    """Deliver everything in small batches, as the shipper does."""
    shipped: list[str] = []
    while records := await claim(store, clock, limit=50):
        ends = [ended(record, Verdict.DELIVERED, clock.now()) for record in records]
        assert await store.settle(ends) == len(records)
        shipped += ids(records)
    return shipped


async def test_a_full_file_is_shipped_empty_and_takes_records_again_twenty_times(
    sqlite: SqliteStore, clock: ManualClock
) -> None:
    await sqlite.put([new(f"seen-{n}") for n in range(500)])
    await end_all(sqlite, clock, Verdict.DELIVERED)
    for number in range(FULL_ROUNDS):
        ((pages,),) = await ask(sqlite, "PRAGMA page_count")
        assert isinstance(pages, int)
        await ask(sqlite, f"PRAGMA max_page_count = {pages + 40}")
        acknowledged = await fill(sqlite, f"{number}")
        assert acknowledged
        assert await ship_all(sqlite, clock) == acknowledged
        await put_when_possible(sqlite, f"after-{number}")
        assert await ship_all(sqlite, clock) == [f"after-{number}"]
    assert await ask(sqlite, "PRAGMA integrity_check") == [("ok",)]


async def test_the_reserve_is_real_room_beside_the_file(sqlite: SqliteStore, folder: Path) -> None:
    found = (folder / RESERVE_NAME).stat()
    assert found.st_size == LIMITS.reserve_bytes
    assert found.st_blocks * 512 >= LIMITS.reserve_bytes
    assert (await sqlite.stats()).has_reserve


async def test_without_its_reserve_a_store_takes_nothing_new_and_ships(
    folder: Path, clock: ManualClock, no_room: pytest.MonkeyPatch
) -> None:
    store = await open_sqlite(folder, clock, replace(LIMITS, reserve_bytes=0))
    await put_ids(store, "a", "b")
    await store.close()
    store = await open_sqlite(folder, clock, LIMITS)
    assert not (await store.stats()).has_reserve
    assert not (folder / RESERVE_NAME).exists()
    with pytest.raises(StoreFull, match="the disk is full"):
        await put_ids(store, "c")
    assert await put_one(store, new("a")) is PutOutcome.DUPLICATE
    assert await ship_all(store, clock) == ["a", "b"]
    no_room.undo()
    await put_when_possible(store, "c")
    assert (await store.stats()).has_reserve
    assert ids(await claim(store, clock)) == ["c"]
    await store.close()


def test_a_reserve_is_made_once_and_given_once(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve", 100_000)
    assert not reserve.held
    assert not reserve.give()
    assert reserve.take()
    made_at = (tmp_path / "reserve").stat().st_mtime_ns
    assert Reserve(tmp_path / "reserve", 100_000).take()
    assert (tmp_path / "reserve").stat().st_mtime_ns == made_at
    assert Reserve(tmp_path / "reserve", 200_000).take()
    assert (tmp_path / "reserve").stat().st_size == 200_000
    assert reserve.give()
    assert not reserve.held
    assert list(tmp_path.iterdir()) == []


def test_a_reserve_that_finds_no_room_leaves_nothing(tmp_path: Path, no_room: pytest.MonkeyPatch) -> None:
    reserve = Reserve(tmp_path / "reserve", 100_000)
    assert not reserve.take()
    assert list(tmp_path.iterdir()) == []


async def test_a_reader_that_stays_cannot_make_the_log_grow_for_ever(
    folder: Path, clock: ManualClock
) -> None:
    store = await open_sqlite(folder, clock, replace(LIMITS, wal_bytes_max=4 * MIB))
    await put_ids(store, "first")
    reader = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM outbox").fetchone()
    await fill(store, "more", 100_000)
    assert (await store.stats()).wal_bytes < 4 * MIB + 64 * 200_000
    with pytest.raises(StoreFull, match="somebody keeps the file open"):
        await put_ids(store, "refused")
    assert await end_all(store, clock, Verdict.DELIVERED)
    reader.close()
    await put_when_possible(store, "again")
    assert (await store.stats()).wal_bytes < MIB
    await store.close()


async def test_a_file_that_was_long_gets_short_again(
    sqlite: SqliteStore, clock: ManualClock, folder: Path
) -> None:
    await sqlite.put([new(f"{n}", b"x" * 20_000) for n in range(300)])
    await sqlite.checkpoint()
    long = (folder / FILE_NAME).stat().st_size
    assert long > 6_000_000
    await end_all(sqlite, clock, Verdict.DELIVERED)
    assert await sqlite.checkpoint()
    assert long - (folder / FILE_NAME).stat().st_size > 4_000_000, "1,024 pages a time"
    assert await sqlite.checkpoint()
    assert (folder / FILE_NAME).stat().st_size < 500_000


async def test_the_log_and_the_disk_are_measured(sqlite: SqliteStore, folder: Path) -> None:
    await put_one(sqlite, new("a", b"x" * 100_000))
    stats = await sqlite.stats()
    assert stats.wal_bytes == (folder / f"{FILE_NAME}-wal").stat().st_size > 100_000
    assert stats.fsync_s is not None
    assert 0 < stats.fsync_s < DEADLINE_S
    assert stats.engine.startswith(f"SQLite {sqlite3.sqlite_version}")
    assert not (folder / PROBE_NAME).exists()


def test_a_folder_that_cannot_be_written_has_no_latency(tmp_path: Path) -> None:
    assert fdatasync_s(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("version", "has_bug"),
    [
        ((3, 38, 0), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 1), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 53, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_builds_with_the_wal_reset_bug_are_named(version: tuple[int, int, int], has_bug: bool) -> None:
    assert has_wal_reset_bug(version) is has_bug
    assert ("WAL-reset" in described(version)) is has_bug


async def test_an_sqlite_that_is_too_old_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))
    with pytest.raises(StoreError, match=r"SQLite 3\.37\.2 .* is too old: 3\.38\.0 or newer"):
        await open_sqlite(folder)


async def test_a_quota_that_is_used_up_stops_no_shipping(
    sqlite: SqliteStore, clock: ManualClock, folder: Path
) -> None:
    """SQLite has no word for it, other than for a full disk: a write failed."""
    for number in range(60):  # one by one: the log is longer than the file that it becomes
        await put_one(sqlite, new(f"kept-{number}", b"x" * 4_000))
    records = await claim(sqlite, clock)
    with no_file_above((folder / f"{FILE_NAME}-wal").stat().st_size):
        with pytest.raises(StoreUnavailable, match="cannot be written for now"):
            await put_ids(sqlite, "refused")
        assert (await sqlite.stats()).has_reserve, "it is for what makes room"
        ends = [ended(record, Verdict.DELIVERED, clock.now()) for record in records]
        assert await sqlite.settle(ends) == len(records)
    await put_when_possible(sqlite, "again")
    assert ids(await claim(sqlite, clock)) == ["again"]
    assert (await sqlite.stats()).has_reserve


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    with needed_disk(tmp_path, mib=48) as disk:
        yield disk


@pytest.mark.chaos
async def test_a_disk_that_is_really_full_twenty_times(
    tmpfs: Path, clock: ManualClock, score: Callable[[Score], None]
) -> None:
    """A record that is lost or doubled ends it: the line says what went through."""
    store = await open_sqlite(tmpfs / "outbox", clock)
    taken = 0
    try:
        for number in range(FULL_ROUNDS):
            acknowledged = await fill(store, f"{number}", 100_000)
            hog = fill_disk(tmpfs)
            if number % 4 == 3:
                await store.close()
                store = await open_sqlite(tmpfs / "outbox", clock)
            assert await ship_all(store, clock) == acknowledged
            hog.unlink()
            healed_s = await put_when_possible(store, f"after-{number}")
            assert await ship_all(store, clock) == [f"after-{number}"]
            assert (await store.stats()).has_reserve
            print(f"full {number}: {len(acknowledged)} records shipped, healed in {healed_s:.2f} s")
            taken += len(acknowledged) + 1
        assert await ask(store, "PRAGMA integrity_check") == [("ok",)]
        score(
            Score(
                disaster="disk full (tmpfs), outbox alone",
                rounds=FULL_ROUNDS,
                sent=taken,
                acknowledged=taken,
                kept=taken,
                lost=0,
                doubled=0,
            )
        )
    finally:
        await store.close()
