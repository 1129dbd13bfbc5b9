"""A salvage that does not find its room: the store is away until it has, and nothing ends or is lost."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from outbox.clock import ManualClock
from outbox.sqlite import SqliteStore, open_sqlite
from outbox.sqlite_file import FILE_NAME, FRESH_NAME
from outbox.store import StoreLimits, StoreUnavailable
from tests.outbox.asking import ask
from tests.outbox.records import MIB, claim, ids, new, put_ids
from tests.support.small_disk import no_file_above

T = TypeVar("T")

DEADLINE_S = 20.0
LIMITS = StoreLimits(reserve_bytes=MIB)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


async def damage_index(store: SqliteStore, folder: Path) -> None:
    """The index that claims go by is damaged under the open file."""
    ((page,),) = await ask(store, "SELECT rootpage FROM sqlite_schema WHERE name = 'outbox_due'")
    ((page_bytes,),) = await ask(store, "PRAGMA page_size")
    assert isinstance(page, int)
    assert isinstance(page_bytes, int)
    await store.checkpoint()
    with (folder / FILE_NAME).open("r+b") as file:
        file.seek((page - 1) * page_bytes)
        file.write(b"\xee" * page_bytes)
    await ask(store, "PRAGMA shrink_memory")


async def when_it_is_back(call: Callable[[], Awaitable[T]]) -> T:
    """Again and again, as every caller does."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return await call()
        except StoreUnavailable:
            assert time.monotonic() < deadline, "it does not heal"
            await asyncio.sleep(0.05)


async def test_a_salvage_that_failed_is_tried_again_by_whoever_comes_next(
    folder: Path, clock: ManualClock
) -> None:
    store = await open_sqlite(folder, clock, LIMITS)
    await put_ids(store, "a", "b")
    await damage_index(store, folder)
    (folder / FRESH_NAME).mkdir()  # in the way of the new file
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: claim(store, clock),
        store.stats,
        lambda: put_ids(store, "c"),
        store.next_due,
        store.checkpoint,
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable):
            await call()
    shutil.rmtree(folder / FRESH_NAME)
    assert ids(await when_it_is_back(lambda: claim(store, clock))) == ["a", "b"]
    await put_ids(store, "c")
    assert "lost: 0 of the waiting" in (await store.stats()).salvaged
    assert len(list(folder.glob(f"{FILE_NAME}.corrupt-*Z"))) == 1
    await store.close()


async def test_a_store_that_could_not_be_salvaged_closes(folder: Path, clock: ManualClock) -> None:
    store = await open_sqlite(folder, clock, LIMITS)
    await put_ids(store, "a")
    await damage_index(store, folder)
    (folder / FRESH_NAME).mkdir()
    with pytest.raises(StoreUnavailable):
        await claim(store, clock)
    await store.close()
    (folder / FRESH_NAME).rmdir()
    again = await open_sqlite(folder, clock, LIMITS)
    assert ids(await when_it_is_back(lambda: claim(again, clock))) == ["a"]
    await again.close()


async def test_a_new_file_without_room_for_its_log_is_not_taken(folder: Path, clock: ManualClock) -> None:
    """The rows stand in the log, whose limit is not reached; the file itself has no room for them."""
    store = await open_sqlite(folder, clock, LIMITS)
    count = 4_200
    for start in range(0, count, 300):
        await store.put([new(f"{n}", b"x" * 4_000) for n in range(start, start + 300)])
    await damage_index(store, folder)
    with no_file_above(14 * MIB), pytest.raises(StoreUnavailable):
        await claim(store, clock)
    assert not (folder / FRESH_NAME).exists()
    records = await when_it_is_back(lambda: claim(store, clock, limit=2 * count))
    assert len(records) == count
    await store.close()
