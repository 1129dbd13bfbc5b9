"""What every store promises of records that are carried away and brought elsewhere."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from outbox.clock import ManualClock
from outbox.kept import KeptRecord, KeptState
from outbox.memory import MemoryStore
from outbox.record import PutOutcome
from outbox.sqlite import open_sqlite
from outbox.store import Store, StoreFull, StoreLimits
from outbox.verdict import Verdict
from tests.outbox.records import claim, end_all, ended, ids, later, new, put_ids

STORED, DUPLICATE, CONFLICT = PutOutcome.STORED, PutOutcome.DUPLICATE, PutOutcome.CONFLICT


async def everything(store: Store, state: KeptState) -> list[KeptRecord]:
    return await store.kept(state, after=0, limit=10_000, bytes_max=2**40)


async def some_of_each(store: Store, clock: ManualClock) -> None:
    """a was delivered, b died, c waits."""
    await store.put([new(name, name.encode(), digest=b"d", label="l", channel="c") for name in ("a", "b")])
    a, b = await claim(store, clock)
    clock.advance(5)
    dead = ended(b, Verdict.DEAD, clock.now(), status=422, reason="bad")
    await store.settle([ended(a, Verdict.DELIVERED, clock.now()), dead])
    await store.put([new("c", b"c", channel="c2")])


async def test_each_state_is_told_with_all_that_is_known(store: Store, clock: ManualClock) -> None:
    await some_of_each(store, clock)
    (waiting,) = await everything(store, "waiting")
    assert (waiting.id, waiting.state, waiting.body, waiting.channel) == ("c", "waiting", b"c", "c2")
    (dead,) = await everything(store, "dead")
    assert (dead.id, dead.digest, dead.body, dead.label, dead.channel) == ("b", b"d", b"b", "l", "c")
    assert (dead.state, dead.status, dead.reason, dead.attempts) == ("dead", 422, "bad", 1)
    assert dead.at - dead.created_at == timedelta(seconds=5)


async def test_a_waiting_record_is_told_with_its_last_answer(store: Store, clock: ManualClock) -> None:
    await put_ids(store, "a")
    due_at = later(clock, 9)
    assert await end_all(store, clock, Verdict.RETRY, due_at=due_at, status=503, reason="away") == 1
    (waiting,) = await everything(store, "waiting")
    told = (waiting.status, waiting.reason, waiting.attempts, waiting.at)
    assert told == (503, "away", 1, due_at)


async def test_pages_are_bounded_by_rows_and_bytes_and_go_on_by_place(store: Store) -> None:
    await put_ids(store, *(f"{number:03}" for number in range(10)))

    async def page(after: int, limit: int, bytes_max: int) -> list[KeptRecord]:
        return await store.kept("waiting", after=after, limit=limit, bytes_max=bytes_max)

    first = await page(0, 4, 1_000)
    assert [record.id for record in first] == ["000", "001", "002", "003"]
    second = await page(first[-1].rowid, 10, 12)
    assert [record.id for record in second] == ["004", "005"], "five bytes each"
    third = await page(second[-1].rowid, 10, 1)
    assert [record.id for record in third] == ["006"], "the first may be above the limit alone"
    assert await page(2**60, 10, 10) == []
    assert ids(await store.claim(now=third[0].at, limit=99, bytes_max=999))[0] == "000", "nothing is leased"


async def test_what_is_brought_elsewhere_is_there_once_and_in_its_state(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    await some_of_each(store, clock)
    carried = [*await everything(store, "waiting"), *await everything(store, "dead")]
    for other in (MemoryStore(clock), await open_sqlite(tmp_path / "other", clock)):
        clock.advance(60)
        assert await other.restore(carried) == [STORED, STORED]
        before = await other.stats()
        assert (before.waiting, before.dead, before.bytes) == (1, 1, 1)
        assert await other.restore(carried) == [DUPLICATE, DUPLICATE]
        assert await other.stats() == before
        (dead,) = await everything(other, "dead")
        assert replace(dead, rowid=0, at=carried[1].at) == replace(carried[1], rowid=0)
        assert dead.at == clock.now(), "its thirty days begin now"
        (record,) = await claim(other, clock)
        assert (record.id, record.body, record.attempts) == ("c", b"c", 0)
        assert record.created_at == carried[0].created_at
        assert await other.dead_requeue(None) == 1
        await other.close()


async def test_what_is_known_in_any_state_is_not_brought_again(store: Store, clock: ManualClock) -> None:
    await some_of_each(store, clock)
    (waiting,), (dead,) = await everything(store, "waiting"), await everything(store, "dead")
    delivered = replace(waiting, id="a", digest=b"d")
    other_state = replace(dead, state="waiting")
    other_digest = replace(dead, digest=b"e")
    outcomes = await store.restore([waiting, dead, delivered, other_state, other_digest])
    assert outcomes == [DUPLICATE, DUPLICATE, DUPLICATE, DUPLICATE, CONFLICT]
    assert (await store.stats()).dead == 2


async def test_a_clock_ahead_elsewhere_does_not_reach_this_store(store: Store, clock: ManualClock) -> None:
    await put_ids(store, "a")
    (record,) = await everything(store, "waiting")
    ahead = replace(record, id="b", created_at=clock.now() + timedelta(days=9), at=clock.now())
    await store.restore([ahead])
    assert {kept.created_at for kept in await everything(store, "waiting")} == {clock.now()}
    assert await end_all(store, clock, Verdict.DELIVERED) == 2


async def test_a_full_store_takes_nothing_that_would_wait(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    await some_of_each(store, clock)
    (waiting,), (dead,) = await everything(store, "waiting"), await everything(store, "dead")
    limits = StoreLimits(rows_max=1)
    for other in (MemoryStore(clock, limits), await open_sqlite(tmp_path / "other", clock, limits)):
        await put_ids(other, "x")
        assert await other.restore([dead]) == [STORED]
        with pytest.raises(StoreFull):
            await other.restore([replace(dead, id="e"), waiting])
        stats = await other.stats()
        assert (stats.waiting, stats.dead) == (1, 1), "all or none"
        await other.close()
