"""Opening a file that is somebody else's or from another time: told clearly, never overwritten."""

from __future__ import annotations

import os
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from outbox.clock import ManualClock
from outbox.sqlite import open_sqlite
from outbox.sqlite_file import FILE_NAME
from outbox.store import StoreCorrupt, StoreUnavailable
from tests.outbox.records import claim, ids, new, put_ids


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


async def test_another_programs_or_releases_file_is_refused(folder: Path) -> None:
    folder.mkdir(parents=True)
    path = folder / FILE_NAME
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    with pytest.raises(StoreCorrupt, match="another program"):
        await open_sqlite(folder)
    path.unlink()
    store = await open_sqlite(folder)
    await store.close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(StoreCorrupt, match="schema 99"):
        await open_sqlite(folder)


async def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable):
        await open_sqlite(tmp_path / "file" / "outbox")


async def test_a_clock_that_was_in_the_future_parks_nothing(folder: Path, clock: ManualClock) -> None:
    ahead = ManualClock(clock.now() + timedelta(days=3650))
    store = await open_sqlite(folder, ahead)
    await put_ids(store, "a")
    await store.close()
    store = await open_sqlite(folder, clock)
    assert ids(await claim(store, clock)) == ["a"]
    await store.close()


async def test_a_clock_that_was_an_hour_ahead_holds_no_storm_back(folder: Path, clock: ManualClock) -> None:
    store = await open_sqlite(folder, ManualClock(clock.now() + timedelta(hours=1)))
    await store.hold("storm", new("last"))
    await store.close()
    store = await open_sqlite(folder, clock)
    clock.advance(1)
    released = await store.release_held(before=clock.now())
    assert [done.result.id for done in released] == ["last"]
    await store.close()


async def test_every_open_makes_the_files_name_durable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who made the file may have died before its folder was synced: then the next start must do it."""
    synced: list[int] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    for _ in range(2):
        synced.clear()
        await (await open_sqlite(folder)).close()
        assert {folder.stat().st_ino, folder.parent.stat().st_ino} <= set(synced)
