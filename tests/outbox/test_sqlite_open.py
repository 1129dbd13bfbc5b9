"""Opening a file that is damaged, somebody else's or from another time: told clearly, never overwritten."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from outbox.clock import ManualClock
from outbox.sqlite import open_sqlite
from outbox.sqlite_file import FILE_NAME
from outbox.store import StoreCorrupt, StoreError, StoreUnavailable
from tests.outbox.records import claim, ids, put_ids


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 300, b"SQLite format 3\x00" + b"\xff" * 5_000]
)
async def test_a_file_that_is_none_is_told_and_left_alone(folder: Path, content: bytes) -> None:
    folder.mkdir(parents=True)
    (folder / FILE_NAME).write_bytes(content)
    with pytest.raises(StoreCorrupt):
        await open_sqlite(folder)
    assert (folder / FILE_NAME).read_bytes() == content


async def test_a_damaged_file_is_told_at_open(folder: Path, clock: ManualClock) -> None:
    store = await open_sqlite(folder, clock)
    await put_ids(store, "a")
    await store.close()
    path = folder / FILE_NAME
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xee" * 3996
    path.write_bytes(bytes(content))
    with pytest.raises(StoreCorrupt, match="damaged"):
        await open_sqlite(folder, clock)


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
    assert issubclass(StoreUnavailable, StoreError)


async def test_a_clock_that_was_in_the_future_parks_nothing(folder: Path, clock: ManualClock) -> None:
    ahead = ManualClock(clock.now() + timedelta(days=3650))
    store = await open_sqlite(folder, ahead)
    await put_ids(store, "a")
    await store.close()
    store = await open_sqlite(folder, clock)
    assert ids(await claim(store, clock)) == ["a"]
    await store.close()
