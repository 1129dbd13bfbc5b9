"""What only the SQLite store promises: durable settings, one process, honest errors, shared commits."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from outbox import sqlite_looks
from outbox.clock import ManualClock
from outbox.record import PutOutcome
from outbox.sqlite import SqliteStore, open_sqlite
from outbox.sqlite_engine import SqliteEngine
from outbox.sqlite_file import FILE_NAME
from outbox.store import StoreBusy, StoreError, StoreLimits, StoreUnavailable
from outbox.verdict import Verdict
from tests.outbox.asking import ask
from tests.outbox.records import claim, end_all, ended, ids, new, put_ids, put_one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "outbox"


@pytest.fixture
async def sqlite(folder: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = await open_sqlite(folder, clock)
    yield store
    await store.close()


async def test_the_real_connection_is_durable(sqlite: SqliteStore) -> None:
    assert await ask(sqlite, "PRAGMA synchronous") == [(2,)]
    assert await ask(sqlite, "PRAGMA journal_mode") == [("wal",)]
    assert await ask(sqlite, "PRAGMA auto_vacuum") == [(2,)]
    assert await ask(sqlite, "PRAGMA journal_size_limit") == [(16 * 1024 * 1024,)]
    assert await ask(sqlite, "PRAGMA wal_autocheckpoint") == [(2000,)]


async def test_folder_and_files_are_private(sqlite: SqliteStore, folder: Path) -> None:
    await put_ids(sqlite, "a")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert set(modes) == {FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm", "lock", "reserve"}
    assert set(modes.values()) == {0o600}


async def test_every_table_is_strict(sqlite: SqliteStore) -> None:
    listed = "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
    tables = await ask(sqlite, listed)
    assert {name for name, strict in tables if not strict} == {"sqlite_schema"}
    assert len(tables) == 14


async def test_everything_is_there_after_a_restart(folder: Path, clock: ManualClock) -> None:
    first = await open_sqlite(folder, clock)
    epoch = first.epoch
    (stamped,) = await first.put([new(lambda stamp: f"n{stamp.number}")])
    await put_ids(first, "a", "b", "c")
    _, a, b, _c = await claim(first, clock)
    await first.settle([ended(a, Verdict.DELIVERED, clock.now()), ended(b, Verdict.DEAD, clock.now())])
    await first.set_meta("k", b"v")
    await first.hold("storm", new("h"))
    before = await first.stats()
    await first.close()
    await first.close()
    second = await open_sqlite(folder, clock)
    after = await second.stats()
    assert (second.epoch, await second.get_meta("k")) == (epoch, b"v")
    assert (before.claimed, after.claimed) == (2, 0)
    assert (after.waiting, after.seen, after.dead, after.held, after.bytes) == (2, 1, 1, 1, before.bytes)
    assert ids(await claim(second, clock)) == [stamped.id, "c"]
    (next_stamped,) = await second.put([new(lambda stamp: f"n{stamp.number}")])
    assert (stamped.id, next_stamped.id) == ("n1", "n2")
    await second.close()


async def test_two_files_have_two_epochs(tmp_path: Path, clock: ManualClock) -> None:
    stores = [await open_sqlite(tmp_path / name, clock) for name in ("a", "b")]
    assert stores[0].epoch != stores[1].epoch
    for store in stores:
        await store.close()


async def test_a_second_opener_gets_a_clear_error(sqlite: SqliteStore, folder: Path) -> None:
    with pytest.raises(StoreBusy, match="in use by another process"):
        await open_sqlite(folder)
    code = "from outbox.sqlite import *; asyncio.run(open_sqlite(Path(os.sys.argv[1])))"
    child = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=30, check=False
    )
    assert child.returncode == 1
    assert "StoreBusy" in child.stderr
    await put_ids(sqlite, "a")


async def test_closed_is_unavailable_and_frees_the_folder(folder: Path) -> None:
    store = await open_sqlite(folder)
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await put_ids(store, "a")
    again = await open_sqlite(folder)
    await again.close()


async def test_a_close_runs_what_was_queued_before_it(folder: Path, clock: ManualClock) -> None:
    store = await open_sqlite(folder, clock)
    puts = [asyncio.create_task(put_one(store, new(f"{n}"))) for n in range(300)]
    await asyncio.sleep(0)
    await store.close()
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    acknowledged = [n for n, outcome in enumerate(outcomes) if outcome is PutOutcome.STORED]
    assert acknowledged
    again = await open_sqlite(folder, clock)
    assert ids(await claim(again, clock)) == [f"{n}" for n in acknowledged]
    await again.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_thread_that_dies_strands_nobody(folder: Path, clock: ManualClock) -> None:
    store = await open_sqlite(folder, clock)

    def die(_engine: SqliteEngine) -> None:
        raise SystemExit

    dying = await store._thread.submit(die)
    queued = [asyncio.create_task(put_ids(store, f"{n}")) for n in range(3)]
    with pytest.raises(StoreError, match="died"):
        await dying
    outcomes = await asyncio.gather(*queued, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreError}
    with pytest.raises(StoreError, match="died"):
        await store.stats()
    await store.close()


async def test_concurrent_puts_share_commits(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = 0

    def count(engine: SqliteEngine) -> None:
        commit = engine.commit

        def counting() -> None:
            nonlocal commits
            commits += 1
            commit()

        monkeypatch.setattr(engine, "commit", counting)

    await (await sqlite._thread.submit(count, bare=True))
    await asyncio.gather(*[put_one(sqlite, new(f"{n}")) for n in range(256)])
    assert 1 <= commits <= 8


async def test_a_cancelled_claim_gives_its_leases_back(sqlite: SqliteStore, clock: ManualClock) -> None:
    await put_ids(sqlite, "a", "b")
    blocked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def block(_engine: SqliteEngine) -> None:
        asyncio.run_coroutine_threadsafe(blocked.wait(), loop).result(timeout=5)

    blocking = await sqlite._thread.submit(block)
    claiming = asyncio.create_task(claim(sqlite, clock))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    blocked.set()
    await blocking
    async with asyncio.timeout(5):
        while (await sqlite.stats()).claimed:
            pass
    assert ids(await claim(sqlite, clock)) == ["a", "b"]


async def test_a_file_locked_by_somebody_is_unavailable_and_heals(sqlite: SqliteStore, folder: Path) -> None:
    other = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        await put_ids(sqlite, "a")
    other.execute("ROLLBACK")
    other.close()
    assert await put_one(sqlite, new("a")) is PutOutcome.STORED


async def test_a_full_disk_stores_nothing_half_and_heals(
    sqlite: SqliteStore, folder: Path, clock: ManualClock
) -> None:
    """The real error of a file that cannot grow, by the process's own limit."""
    await put_ids(sqlite, "before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    wal = folder / f"{FILE_NAME}-wal"
    resource.setrlimit(resource.RLIMIT_FSIZE, (wal.stat().st_size + 30_000, hard))
    try:
        big = [put_one(sqlite, new(f"big{n}", b"x" * 200_000)) for n in range(5)]
        small = put_one(sqlite, new("small"))
        outcomes = await asyncio.gather(*big, small, return_exceptions=True)
        assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes[:5]), outcomes
        assert outcomes[5] is PutOutcome.STORED
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    stats = await sqlite.stats()
    assert (stats.waiting, stats.bytes) == (2, len(b'"before"') + len(b"{}"))
    assert await put_one(sqlite, new("big0", b"x" * 200_000)) is PutOutcome.STORED
    assert ids(await claim(sqlite, clock)) == ["before", "small", "big0"]


async def test_the_log_is_cut_by_a_checkpoint(sqlite: SqliteStore, folder: Path) -> None:
    await sqlite.put([new(f"{n}", b"x" * 10_000) for n in range(100)])
    wal = folder / f"{FILE_NAME}-wal"
    assert wal.stat().st_size > 1_000_000
    reader = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM outbox").fetchone()
    await put_ids(sqlite, "more")
    assert await sqlite.checkpoint() is False
    reader.close()
    assert await sqlite.checkpoint() is True
    assert wal.stat().st_size == 0


async def test_the_log_stays_bounded_under_load(
    sqlite: SqliteStore, clock: ManualClock, folder: Path
) -> None:
    for n in range(40):
        await sqlite.put([new(f"{n}-{k}", b"x" * 10_000) for k in range(100)])
        await end_all(sqlite, clock, Verdict.DELIVERED)
    assert (folder / f"{FILE_NAME}-wal").stat().st_size < 20 * 1024 * 1024


async def test_opening_does_not_read_the_history(folder: Path, clock: ManualClock) -> None:
    store = await open_sqlite(folder, clock)
    for n in range(40):
        await store.put([new(f"{n}-{k}", b"x" * 200) for k in range(1_000)])
        await end_all(store, clock, Verdict.DELIVERED)
    await store.close()
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    engine = _engine_counting(folder, clock, step)
    sqlite_looks.stats(engine)
    engine.close()
    assert steps < 50, "virtual machine steps in hundreds"


def _engine_counting(folder: Path, clock: ManualClock, step: Callable[[], None]) -> SqliteEngine:
    connect = sqlite3.connect

    class Counting(sqlite3.Connection):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.set_progress_handler(step, 100)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, factory=Counting, **more))
        return SqliteEngine(folder, clock, StoreLimits())
