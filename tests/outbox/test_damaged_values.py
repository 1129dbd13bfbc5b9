"""A value that no column can hold is damage as well: the file is salvaged, once, and nothing ends."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from outbox.clock import ManualClock
from outbox.record import GuardMode
from outbox.sqlite import SqliteStore, open_sqlite
from outbox.sqlite_file import FILE_NAME
from outbox.store import PruneLimits, StoreUnavailable
from outbox.verdict import Verdict
from tests.outbox.records import claim, end_all, ended, guarded, later, new

FLIPS: Final = 60
ROUNDS: Final = 3
LEAF_HEADER_BYTES: Final = 8

NO_TEXT: Final = "CAST(x'6ce16a61' AS TEXT)"
# What is damaged, and how many of the three records wait afterwards.
DAMAGES: Final = {
    "a label is no text": (f"UPDATE outbox SET label = {NO_TEXT} WHERE rowid = 1", 3),
    "a label is bytes": ("UPDATE outbox SET label = CAST(label AS BLOB) WHERE rowid = 1", 3),
    "a body is a text": ("UPDATE outbox SET body = CAST(body AS TEXT) WHERE rowid = 1", 3),
    "a channel is no text": (f"UPDATE ids SET channel = {NO_TEXT} WHERE rowid = 1", 3),
    "an id is no text": (f"UPDATE ids SET id = {NO_TEXT} WHERE rowid = 1", 2),
    "a birth far ahead": (f"UPDATE ids SET created_at = {2**62} WHERE rowid = 1", 3),
    "a birth just too far ahead": (f"UPDATE ids SET created_at = {2**57 + 1} WHERE rowid = 1", 3),
    "a birth before all time": (f"UPDATE ids SET created_at = {-(2**62)} WHERE rowid = 1", 3),
    "due after what is parked": (f"UPDATE outbox SET due_at = due_at | {2**62} WHERE rowid = 1", 3),
    "due before all time": ("UPDATE outbox SET due_at = -1", 3),
    "attempts are a text": ("UPDATE outbox SET attempts = 'x' WHERE rowid = 1", 3),
    "a member is none": ("""UPDATE last SET members = '{"name":"0g"}'""", 3),
    "members are no JSON": ("""UPDATE last SET members = '{"na'""", 3),
    "members are no text": (f"UPDATE last SET members = {NO_TEXT}", 3),
    "a storm's key is none": ("UPDATE held SET key = x'ff'", 3),
    "the death of a letter": (f"UPDATE dead SET at = {2**62}", 3),
    "a document is a text": ("UPDATE meta SET value = CAST(value AS TEXT)", 3),
    "the epoch is no text": (f"UPDATE ledger SET epoch = {NO_TEXT}", 3),
    "the meter is gone": ("DELETE FROM meter", 3),
    "a column has another name": ("ALTER TABLE cells RENAME COLUMN delays TO delayz", 3),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


async def fill(folder: Path, clock: ManualClock, count: int = 3) -> None:
    """Waiting records behind a dead letter, a delivered one and a held one."""
    store = await open_sqlite(folder, clock)
    await store.put([new(f"w-{n}", f'"w-{n}"'.encode() * 20, label="l", channel="c") for n in range(count)])
    await store.put([new("dead", label="l"), guarded("seen", GuardMode.SNAPSHOT, name=b"v")])
    dead, seen = [record for record in await claim(store, clock) if record.id in ("dead", "seen")]
    now = clock.now()
    await store.settle([ended(dead, Verdict.DEAD, now), ended(seen, Verdict.DELIVERED, now)])
    await store.hold("storm", new("held"))
    await store.set_meta("k", b"v")
    await store.close()


def damage(folder: Path, statement: str) -> None:
    """Write what a sound column refuses, as a bit that flips does."""
    definitions = _without_strict(folder)
    with _opened(folder) as connection:
        connection.execute(statement)
    if not statement.startswith("ALTER"):
        with _opened(folder) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.executemany("UPDATE sqlite_schema SET sql = ? WHERE name = ?", definitions)


def _without_strict(folder: Path) -> list[tuple[str, str]]:
    with _opened(folder) as connection:
        definitions = connection.execute(
            "SELECT sql, name FROM sqlite_schema WHERE type = 'table'"
        ).fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(replace(sql, 'STRICT, ', ''), 'STRICT', '')"
            " WHERE type = 'table'"
        )
    return definitions


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as connection:
        yield connection


def aside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(f"{FILE_NAME}.corrupt-*Z"))


async def use(store: SqliteStore, clock: ManualClock) -> int:
    """Every operation that reads what is kept; returns how many found the store away for now."""
    now, soon = clock.now(), later(clock, 1)
    limits = PruneLimits(
        seen_before=soon,
        seen_rows_max=0,
        dead_before=soon,
        dead_through=0,
        dead_rows_max=100,
        last_rows_max=100,
        rows_per_call_max=100,
    )

    async def claimed() -> None:
        await store.release(await claim(store, clock))

    calls: list[Callable[[], Awaitable[object]]] = [
        claimed,
        store.next_due,
        store.stats,
        lambda: store.dead_list(limit=100),
        lambda: store.dead_show("dead"),
        lambda: store.kept("waiting", after=0, limit=100, bytes_max=10**6),
        lambda: store.kept("dead", after=0, limit=100, bytes_max=10**6),
        lambda: store.sightings("w-0"),
        lambda: store.put([guarded("again", GuardMode.SNAPSHOT, name=b"v")]),
        lambda: store.get_meta("k"),
        lambda: store.sweep(before=soon, limit=100),
        lambda: store.untold(limit=100),
        lambda: store.told([], kept_max=100),
        store.release_held,
        lambda: store.prune(limits),
        lambda: store.blobs.claim(now=now, limit=10, bytes_max=10**6),
        store.checkpoint,
    ]
    away = 0
    for call in calls:
        try:
            await call()
        except StoreUnavailable:
            away += 1
    return away


@pytest.mark.parametrize("what", DAMAGES)
async def test_a_damaged_value_is_salvaged_once_and_never_met_again(
    folder: Path, clock: ManualClock, what: str
) -> None:
    statement, waiting = DAMAGES[what]
    await fill(folder, clock)
    damage(folder, statement)
    store = await open_sqlite(folder, clock)
    await use(store, clock)
    assert await use(store, clock) == 0
    records = {record.id: record.body for record in await claim(store, clock)}
    kept = [id_ for id_ in ("w-0", "w-1", "w-2") if records.get(id_) == f'"{id_}"'.encode() * 20]
    assert len(kept) == waiting
    assert f"lost: {3 - waiting} of the waiting" in (await store.stats()).salvaged
    assert len(aside(folder)) == 1
    await store.close()
    again = await open_sqlite(folder, clock)
    assert await use(again, clock) == 0
    assert (await again.stats()).salvaged == ""
    await again.close()


async def test_an_index_that_names_a_row_twice_is_damage(folder: Path, clock: ManualClock) -> None:
    await fill(folder, clock)
    with _opened(folder) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'outbox_due'")
        ((page_bytes,),) = connection.execute("PRAGMA page_size")
    with (folder / FILE_NAME).open("r+b") as file:
        file.seek((root - 1) * page_bytes + LEAF_HEADER_BYTES)
        first = file.read(2)
        file.write(first)  # the second cell is the first once more
    store = await open_sqlite(folder, clock)
    with pytest.raises(StoreUnavailable, match="it was salvaged"):
        await claim(store, clock)
    assert len(await claim(store, clock)) == 3
    await store.close()


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_bit_flips_no_call_ends_the_process(
    folder: Path, clock: ManualClock, seed: int
) -> None:
    await fill(folder, clock, count=100)
    sound = (folder / FILE_NAME).read_bytes()
    chance = random.Random(seed)
    for number in range(FLIPS // 4):
        flipped = bytearray(sound)
        for _ in range(chance.choice([1, 3, 10])):
            flipped[chance.randrange(100, len(flipped))] ^= 1 << chance.randrange(8)
        place = folder.with_name(f"flipped-{number}")
        place.mkdir()
        (place / FILE_NAME).write_bytes(flipped)
        store = await open_sqlite(place, clock)
        for _ in range(ROUNDS):
            await use(store, clock)
        assert await use(store, clock) == 0, f"seed {seed}, file {number}: it does not heal"
        await store.close()
        again = await open_sqlite(place, clock)
        assert await use(again, clock) == 0
        with contextlib.suppress(StoreUnavailable):
            await end_all(again, clock, Verdict.DELIVERED)
        await again.close()


async def test_a_mistake_of_ours_is_no_damage(folder: Path, clock: ManualClock) -> None:
    await fill(folder, clock)
    store = await open_sqlite(folder, clock)
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        await store._do(lambda engine: engine.connection.execute("SELECT missing FROM ids"))
    with pytest.raises(ZeroDivisionError):
        await store._do(lambda _engine: 1 // 0)
    assert aside(folder) == []
    await store.close()
