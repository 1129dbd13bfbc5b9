"""The meter: each record counted once by the channels that brought it, whatever became of it meanwhile."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox import sqlite_metering_statements as sql
from outbox.clock import ManualClock
from outbox.kept import KeptRecord
from outbox.metering import CELLS_KEPT, DELAY_BUCKETS, Cell, Channels, MeteredStore, Seen, bucket_of, cells_of
from outbox.sqlite import open_sqlite
from outbox.sqlite_file import FILE_NAME
from outbox.verdict import Verdict
from tests.outbox.records import end_all, new

GRACE = timedelta(minutes=30)
ROOT = Path(__file__).parents[2]


async def sweep(store: MeteredStore, clock: ManualClock, limit: int = 500) -> int:
    return (await store.sweep(before=clock.now() - GRACE, limit=limit)).looked


async def counts(store: MeteredStore) -> Counter[tuple[str, Channels]]:
    """All that is not told yet."""
    found: Counter[tuple[str, Channels]] = Counter()
    for cell in await store.untold(limit=1_000):
        found[cell.label, cell.channels] += cell.count
    return found


async def bring(store: MeteredStore, *ids: str, channel: str = "webhook", label: str = "l") -> None:
    await store.put([new(id_, channel=channel, label=label) for id_ in ids])


async def test_a_record_is_counted_once_after_the_grace(store: MeteredStore, clock: ManualClock) -> None:
    await bring(store, "a", "b", "c")
    clock.advance(2)
    await bring(store, "b", "d", channel="rabbitmq")
    clock.advance(GRACE.total_seconds() - 1)
    assert await sweep(store, clock) == 3  # not d: its copy may still come
    await bring(store, "d")
    clock.advance(GRACE.total_seconds())
    assert await sweep(store, clock) == 1
    assert await sweep(store, clock) == 0
    assert await counts(store) == {
        ("l", ("webhook",)): 2,
        ("l", ("rabbitmq", "webhook")): 2,
    }


async def test_delays_are_those_between_the_first_two_channels(
    store: MeteredStore, clock: ManualClock
) -> None:
    await bring(store, "a", "b")
    clock.advance(0.005)
    await bring(store, "a", channel="rabbitmq")
    clock.advance(3)
    await bring(store, "b", "a", channel="rabbitmq")
    await bring(store, "a", channel="jsonl")
    clock.advance(3600)
    await sweep(store, clock)
    both, three = sorted(await store.untold(limit=9), key=lambda cell: -len(cell.channels), reverse=True)
    assert three.channels == ("jsonl", "rabbitmq", "webhook")
    assert (three.delay_ms_max, both.delay_ms_max) == (5, 3005)
    assert [n for n, count in enumerate(three.delays) if count] == [3]
    assert [n for n, count in enumerate(both.delays) if count] == [12]


@pytest.mark.parametrize("verdict", [Verdict.DELIVERED, Verdict.DEAD])
async def test_what_was_delivered_or_died_is_counted_too(
    store: MeteredStore, clock: ManualClock, verdict: Verdict
) -> None:
    await bring(store, "a", "b")
    await end_all(store, clock, verdict)
    await bring(store, "b", channel="rabbitmq")
    clock.advance(3600)
    await sweep(store, clock)
    assert await counts(store) == {("l", ("webhook",)): 1, ("l", ("rabbitmq", "webhook")): 1}


@pytest.mark.parametrize("is_swept_first", [False, True])
async def test_a_dead_letter_that_is_sent_again_is_the_same_record(
    store: MeteredStore, clock: ManualClock, is_swept_first: bool
) -> None:
    await bring(store, "a", "b")
    await end_all(store, clock, Verdict.DEAD)
    clock.advance(3600)
    if is_swept_first:
        await sweep(store, clock)
    await store.dead_requeue(["b"])
    await store.dead_requeue(["a"])
    clock.advance(3600)
    await sweep(store, clock)
    assert await counts(store) == {("l", ("webhook",)): 2}


async def test_what_is_forgotten_and_comes_again_is_counted_again(
    store: MeteredStore, clock: ManualClock
) -> None:
    """SQLite gives a rowid again when it was the last one: the next record must not be taken for counted."""
    await bring(store, "a", "b")
    await end_all(store, clock, Verdict.DEAD)
    clock.advance(3600)
    await sweep(store, clock)
    await store.dead_drop(["b"])
    await bring(store, "c")
    clock.advance(3600)
    assert await sweep(store, clock) == 1
    assert await counts(store) == {("l", ("webhook",)): 3}


async def test_a_second_body_is_the_same_fact(store: MeteredStore, clock: ManualClock) -> None:
    await store.put([new("a", digest=b"1", channel="webhook", label="l")])
    await store.put([new("a", digest=b"2", channel="rabbitmq", label="l")])
    clock.advance(3600)
    await sweep(store, clock)
    assert await counts(store) == {("l", ("rabbitmq", "webhook")): 1}


async def test_what_has_no_channel_or_was_carried_here_is_not_counted(
    store: MeteredStore, clock: ManualClock
) -> None:
    carried = KeptRecord(
        rowid=1, id="k", digest=b"", state="waiting", label="l", channel="webhook", status=None, reason="",
        attempts=0, created_at=clock.now(), at=clock.now(), body=b"{}",
    )  # fmt: skip
    await store.restore([carried])
    await store.put([new("a", label="l")])
    clock.advance(3600)
    await sweep(store, clock)
    assert await counts(store) == {}


async def test_a_clock_that_was_ahead_holds_nothing_up(store: MeteredStore, clock: ManualClock) -> None:
    clock.advance(86_400 * 365)
    await bring(store, "a")
    clock.advance(-86_400 * 365)
    await bring(store, "b")
    clock.advance(3600)
    assert await sweep(store, clock) == 2


async def test_a_sweep_is_bounded_and_goes_on_where_it_ended(store: MeteredStore, clock: ManualClock) -> None:
    for hour in range(3):
        await bring(store, *(f"{hour}-{n}" for n in range(10)), label=f"l{hour}")
        clock.advance(3600)
    assert [await sweep(store, clock, limit=12) for _ in range(4)] == [12, 12, 6, 0]
    cells = await store.untold(limit=2)
    assert [(cell.label, cell.count) for cell in cells] == [("l0", 10), ("l1", 10)]


async def test_only_what_grew_is_told_again(store: MeteredStore, clock: ManualClock) -> None:
    await bring(store, "a", "b")
    clock.advance(3600)
    await sweep(store, clock, limit=1)
    first = await store.untold(limit=9)
    await sweep(store, clock)
    await store.told(first, kept_max=100)  # an answer that came late: it told of one
    assert [cell.count for cell in await store.untold(limit=9)] == [2]
    await store.told(await store.untold(limit=9), kept_max=100)
    assert await store.untold(limit=9) == []


async def test_old_cells_are_forgotten_when_they_were_told_or_are_too_many(
    store: MeteredStore, clock: ManualClock
) -> None:
    for hour in range(10):
        await bring(store, f"{hour}")
        clock.advance(3600)
    await sweep(store, clock)
    cells = await store.untold(limit=100)
    assert len(cells) == 10
    assert await store.told(cells[:5], kept_max=100) == 9 - CELLS_KEPT // timedelta(hours=1)
    assert await store.told([], kept_max=4) == 3
    assert [cell.hour for cell in await store.untold(limit=100)] == [cell.hour for cell in cells[6:]]


async def test_counts_and_place_outlive_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    store = await open_sqlite(tmp_path / "o", clock)
    await bring(store, "a", "b")
    clock.advance(3600)
    await sweep(store, clock, limit=1)
    await store.close()
    store = await open_sqlite(tmp_path / "o", clock)
    assert await sweep(store, clock) == 1
    assert await counts(store) == {("l", ("webhook",)): 2}
    await store.close()


async def test_a_file_of_the_release_before_counts_what_comes_from_now_on(
    tmp_path: Path, clock: ManualClock
) -> None:
    store = await open_sqlite(tmp_path / "o", clock)
    await bring(store, "a")
    await store.close()
    with sqlite3.connect(tmp_path / "o" / FILE_NAME) as older:
        for table in ("meter", "cells", "labels"):
            older.execute(f"DROP TABLE {table}")
        older.execute("ALTER TABLE ids DROP COLUMN label_id")
        older.execute("PRAGMA user_version = 2")
    older.close()
    store = await open_sqlite(tmp_path / "o", clock)
    await bring(store, "b")
    await bring(store, "a", channel="rabbitmq")
    clock.advance(3600)
    assert await sweep(store, clock) == 1
    assert await counts(store) == {("l", ("webhook",)): 1}
    await store.close()


async def test_kill_9_amid_sweeps_counts_nothing_twice_and_misses_nothing(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    clock = ManualClock()
    store = await open_sqlite(tmp_path / "o", clock)
    for start in range(0, 4000, 500):
        await bring(store, *(f"{n}" for n in range(start, start + 500)), label=f"l{start % 3}")
    await bring(store, *(f"{n}" for n in range(0, 4000, 4)), channel="rabbitmq")
    await store.close()
    swept = False
    for _ in range(6):
        command = [sys.executable, "-m", "tests.support.sweep_forever", str(tmp_path / "o")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "open\n", f"seed {seed}"
            killer = threading.Timer(chance.uniform(0.0, 0.2), child.kill)
            killer.start()
            swept = "done\n" in child.stdout.readlines()
            killer.join()
        if swept:
            break
    store = await open_sqlite(tmp_path / "o", clock)
    while await sweep(store, ManualClock(clock.now() + timedelta(days=1)), limit=100):
        pass
    total: Counter[Channels] = Counter()
    for (_, channels), count in (await counts(store)).items():
        total[channels] += count
    await store.close()
    assert total == {("webhook",): 3000, ("rabbitmq", "webhook"): 1000}, f"seed {seed}"


def test_each_row_is_read_once_by_its_place() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE ids (rowid INTEGER PRIMARY KEY, id TEXT, digest BLOB, channel TEXT,"
                       " created_at INTEGER, seen_at INTEGER, UNIQUE (id, digest))")  # fmt: skip
    connection.execute("CREATE TABLE sightings (id TEXT, digest BLOB, channel TEXT, first_at INTEGER,"
                       " PRIMARY KEY (id, digest, channel)) WITHOUT ROWID")  # fmt: skip
    for statement in sql.METER_SCHEMA:
        connection.execute(statement)

    def plan(statement: str, parameters: tuple[object, ...] | dict[str, object]) -> list[str]:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
        return [row[3] for row in rows]

    assert plan(sql.SWEEP, (1, 1)) == ["SEARCH ids USING INTEGER PRIMARY KEY (rowid>?)"]
    channels = plan(sql.CHANNELS, {"first": 1, "last": 2})
    assert [line for line in channels if line.startswith("SCAN")] == []
    assert "SEARCH s USING PRIMARY KEY (id=?)" in channels
    assert any("cells_untold" in line for line in plan(sql.UNTOLD, (1,)))
    assert any("PRIMARY KEY" in line for line in plan(sql.CELL_READ, ("l", 1, "[]")))


MOMENTS = st.datetimes(min_value=ManualClock().now().replace(tzinfo=None)).map(
    lambda at: at.replace(tzinfo=ManualClock().now().tzinfo)
)
SEEN = st.builds(
    Seen,
    label=st.sampled_from(["a", "b"]),
    first_at=MOMENTS,
    channels=st.dictionaries(st.sampled_from(["webhook", "rabbitmq", "jsonl"]), MOMENTS, min_size=1),
)


@given(st.lists(SEEN), st.integers(0, 30))
def test_cells_add_up_however_the_records_are_divided(records: list[Seen], middle: int) -> None:
    whole = {cell.key: cell for cell in cells_of(records)}
    parts: dict[object, Cell] = {}
    for part in (records[:middle], records[middle:]):
        for cell in cells_of(part):
            known = parts.get(cell.key)
            parts[cell.key] = cell if known is None else known.plus(cell)
    assert parts == whole
    assert sum(cell.count for cell in whole.values()) == len(records)
    for cell in whole.values():
        assert sum(cell.delays) == (cell.count if len(cell.channels) > 1 else 0)


@given(st.integers(0, 10**9))
def test_a_delay_is_in_the_first_bucket_that_holds_it(delay_ms: int) -> None:
    bucket = bucket_of(delay_ms)
    assert delay_ms <= 2**bucket or bucket == DELAY_BUCKETS - 1
    assert bucket == 0 or delay_ms > 2 ** (bucket - 1)
