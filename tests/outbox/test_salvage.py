"""A damaged file is set aside, what can be read goes on being shipped, and what is lost can come again."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from outbox.clock import ManualClock
from outbox.record import PutOutcome
from outbox.sqlite import SqliteStore, open_sqlite
from outbox.sqlite_file import FILE_NAME, FRESH_NAME, begin_fresh
from outbox.sqlite_salvage import SET_ASIDE_MAX
from outbox.store import StoreCorrupt, StoreUnavailable
from outbox.verdict import Verdict
from tests.outbox.asking import ask
from tests.outbox.records import claim, end_all, ids, new, put_ids, put_one

PAGE = 4_096
WAITING, SEEN = 1_500, 800
DAMAGE = b"\xee" * PAGE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


def body_of(id_: str) -> bytes:
    return f'{{"of":"{id_}"}}'.encode() * 8


async def filled(folder: Path, clock: ManualClock) -> SqliteStore:
    """Delivered, dead and waiting records, a held one, and a word in meta."""
    store = await open_sqlite(folder, clock)
    await store.put([new(f"seen-{n}", body_of(f"seen-{n}"), channel="c") for n in range(SEEN)])
    await end_all(store, clock, Verdict.DELIVERED)
    await store.put([new(f"dead-{n}", body_of(f"dead-{n}")) for n in range(50)])
    await end_all(store, clock, Verdict.DEAD)
    await store.put([new(f"w-{n}", body_of(f"w-{n}"), digest=b"d") for n in range(WAITING)])
    await store.hold("storm", new("held"))
    await store.set_meta("k", b"v")
    return store


def damage(folder: Path, *pages: int) -> None:
    """Overwrite pages, counted from 1."""
    with (folder / FILE_NAME).open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(DAMAGE)


def aside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if ".corrupt-" in path.name)


async def pages_of(store: SqliteStore, tree: str) -> list[int]:
    """The root page of a table or an index."""
    rows = await ask(store, f"SELECT rootpage FROM sqlite_schema WHERE name = '{tree}'")
    return [int(str(page)) for (page,) in rows]


async def faults(store: SqliteStore, clock: ManualClock) -> list[str]:
    """Broken promises: a body that is not its own, an id that is known although its record is gone."""
    stats = await store.stats()
    waiting = {record.id: record for record in await claim(store, clock, limit=10_000)}
    found = [f"other body: {id_}" for id_, record in waiting.items() if record.body != body_of(id_)]
    if stats.waiting != len(waiting):
        found.append(f"the ledger says {stats.waiting}, {len(waiting)} wait")
    again = await store.put([new(f"w-{n}", body_of(f"w-{n}"), digest=b"d") for n in range(WAITING)])
    return found + [
        f"{result.id}: {result.outcome}, waits: {result.id in waiting}"
        for result in again
        if (result.outcome is PutOutcome.DUPLICATE) is not (result.id in waiting)
    ]


@pytest.mark.parametrize(
    "content", [b"", b"not a database at all" * 300, b"SQLite format 3\x00" + b"\xff" * 5_000]
)
async def test_a_file_that_is_none_is_set_aside_unchanged(
    folder: Path, clock: ManualClock, content: bytes
) -> None:
    folder.mkdir(parents=True)
    (folder / FILE_NAME).write_bytes(content)
    store = await open_sqlite(folder, clock)
    assert "0 waiting" in (await store.stats()).salvaged
    assert "lost: an unknown number" in (await store.stats()).salvaged
    (name,) = aside(folder)
    assert (folder / name).read_bytes() == content
    assert await put_one(store, new("a")) is PutOutcome.STORED
    await store.close()
    again = await open_sqlite(folder, clock)
    assert (await again.stats()).salvaged == ""
    assert ids(await claim(again, clock)) == ["a"]
    await again.close()


async def test_a_truncated_file_gives_what_it_still_has(folder: Path, clock: ManualClock) -> None:
    store = await filled(folder, clock)
    epoch = store.epoch
    await store.close()
    path = folder / FILE_NAME
    size = path.stat().st_size // PAGE
    with path.open("r+b") as file:
        file.truncate(size * 2 // 3 * PAGE)
    store = await open_sqlite(folder, clock)
    stats = await store.stats()
    assert 0 < stats.waiting < WAITING
    assert f"lost: {WAITING - stats.waiting} of the waiting" in stats.salvaged
    assert store.epoch != epoch, "a number of the old epoch could be given twice"
    assert not await faults(store, clock)
    await store.close()


@pytest.mark.parametrize("seed", range(0, 12, 2))
async def test_whatever_page_is_damaged_nothing_is_invented_and_what_is_lost_can_come_again(
    folder: Path, clock: ManualClock, seed: int
) -> None:
    store = await filled(folder, clock)
    schema = set(await pages_of(store, "ledger"))
    await store.close()
    chance = random.Random(seed)
    size = (folder / FILE_NAME).stat().st_size // PAGE
    pages = chance.sample(sorted(set(range(3, size)) - schema), 1 + seed)
    damage(folder, *pages)
    store = await open_sqlite(folder, clock)
    await _until_salvaged(store, clock)
    assert not await faults(store, clock)
    assert await ask(store, "PRAGMA integrity_check") == [("ok",)]
    await store.close()


async def _until_salvaged(store: SqliteStore, clock: ManualClock) -> None:
    """Read everything, as a daemon does in time; damage that nothing reads is none."""
    for _ in range(3):
        try:
            await store.release(await claim(store, clock, limit=10_000))
            await store.put([new(f"w-{n}", body_of(f"w-{n}"), digest=b"d") for n in range(WAITING)])
            if await ask(store, "PRAGMA integrity_check") == [("ok",)]:
                return
        except StoreUnavailable:
            continue
        except StoreCorrupt:
            pass
        await _call_damaged(store)


async def _call_damaged(store: SqliteStore) -> None:
    opened = store._engine.opened
    reopen = await store._thread.submit(lambda engine: engine.reopen(opened, "integrity"), bare=True)
    await reopen


async def test_seen_ids_are_carried_over(folder: Path, clock: ManualClock) -> None:
    store = await filled(folder, clock)
    await store.close()
    (folder / FILE_NAME).write_bytes((folder / FILE_NAME).read_bytes()[:-PAGE])
    store = await open_sqlite(folder, clock)
    stats = await store.stats()
    assert (stats.seen, stats.dead, stats.held) == (SEEN, 50, 1)
    assert await put_one(store, new("seen-7", b"again")) is PutOutcome.DUPLICATE
    assert await store.get_meta("k") == b"v"
    assert [dead.id for dead in await store.dead_list(limit=2)] == ["dead-0", "dead-1"]
    await store.close()


async def test_an_id_whose_own_row_is_damaged_is_found_in_the_index(folder: Path, clock: ManualClock) -> None:
    store = await filled(folder, clock)
    (root,) = await pages_of(store, "ids")
    await store.close()
    damage(folder, root)
    store = await open_sqlite(folder, clock)
    with pytest.raises(StoreUnavailable, match="it was salvaged"):
        await put_one(store, new("any", digest=b"d"))
    stats = await store.stats()
    assert (stats.waiting, stats.dead) == (WAITING, 50)
    assert not await faults(store, clock)
    await store.close()


async def test_what_only_the_log_holds_is_carried_over(
    folder: Path, clock: ManualClock, tmp_path: Path
) -> None:
    """As a kill leaves it: the last commits stand in the log alone."""
    store = await filled(folder, clock)
    (due,) = await pages_of(store, "outbox_due")
    await store.checkpoint()
    await put_ids(store, "in-the-log")
    copied = tmp_path / "copied"
    shutil.copytree(folder, copied)
    await store.close()
    damage(copied, due)
    store = await open_sqlite(copied, clock)
    assert "lost: 0 of the waiting" in (await store.stats()).salvaged
    assert ids(await claim(store, clock, limit=10_000))[-1] == "in-the-log"
    await store.close()


async def test_a_damaged_file_and_its_log_are_set_aside_as_they_were(
    folder: Path, clock: ManualClock, tmp_path: Path
) -> None:
    store = await filled(folder, clock)
    await store.checkpoint()
    await put_ids(store, "in-the-log")
    copied = tmp_path / "copied"
    shutil.copytree(folder, copied)
    await store.close()
    damage(copied, 1)
    ends = ("", "-wal")
    before = [(copied / f"{FILE_NAME}{end}").read_bytes() for end in ends]
    await (await open_sqlite(copied, clock)).close()
    (name,) = [name for name in aside(copied) if name.endswith("Z")]
    assert [(copied / f"{name}{end}").read_bytes() for end in ends] == before


async def test_damage_found_at_work_is_salvaged_without_a_restart(folder: Path, clock: ManualClock) -> None:
    store = await filled(folder, clock)
    (due,) = await pages_of(store, "outbox_due")
    held = await claim(store, clock, limit=5)
    await store.checkpoint()
    damage(folder, due)
    await ask(store, "PRAGMA shrink_memory")
    with pytest.raises(StoreUnavailable, match=r"damaged.*salvaged"):
        await claim(store, clock)
    stats = await store.stats()
    assert (stats.waiting, stats.claimed) == (WAITING, 0)
    assert "lost: 0 of the waiting" in stats.salvaged
    assert await store.release(held) == 0, "its leases ended with the file"
    assert not await faults(store, clock)
    assert len([name for name in aside(folder) if name.endswith("Z")]) == 1
    await store.close()


async def test_a_crash_amid_a_salvage_is_finished_or_forgotten(folder: Path, clock: ManualClock) -> None:
    store = await open_sqlite(folder, clock)
    await put_ids(store, "a")
    await store.close()
    begin_fresh(folder)
    begun = await open_sqlite(folder, clock)
    assert ids(await claim(begun, clock)) == ["a"], "a file in the making is no file"
    await begun.close()
    (folder / FRESH_NAME).unlink()
    (folder / FILE_NAME).rename(folder / FRESH_NAME)
    for end in ("-wal", "-shm"):
        (folder / f"{FRESH_NAME}{end}").unlink(missing_ok=True)
    (folder / f"{FILE_NAME}-wal").write_bytes(b"of the file that is set aside already")
    finished = await open_sqlite(folder, clock)
    assert ids(await claim(finished, clock)) == ["a"], "a whole one gets its name"
    assert [name[-4:] for name in aside(folder)] == ["-wal"]
    await finished.close()


async def test_a_disk_that_damages_one_file_after_the_other_needs_a_person(
    folder: Path, clock: ManualClock
) -> None:
    folder.mkdir(parents=True)
    for _ in range(SET_ASIDE_MAX):
        (folder / FILE_NAME).write_bytes(DAMAGE)
        await (await open_sqlite(folder, clock)).close()
        clock.advance(1)
    (folder / FILE_NAME).write_bytes(DAMAGE)
    with pytest.raises(StoreCorrupt, match="needs a person"):
        await open_sqlite(folder, clock)
    assert (folder / FILE_NAME).read_bytes() == DAMAGE
