"""What every store promises of dead letters, held storms and forgetting."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from outbox.clock import ManualClock
from outbox.record import GuardMode, PutOutcome
from outbox.store import PruneLimits, Queue, Store
from outbox.verdict import Verdict
from tests.outbox.records import claim, end_all, ended, guarded, ids, new, put, put_ids, put_one


def keep_all(clock: ManualClock) -> PruneLimits:
    return PruneLimits(
        seen_before=clock.now() - timedelta(days=30),
        seen_rows_max=1_000,
        dead_before=clock.now() - timedelta(days=30),
        dead_through=2**62,
        dead_rows_max=1_000,
        last_rows_max=1_000,
        rows_per_call_max=100,
    )


async def test_a_dead_letter_keeps_body_status_and_reason(queue: Queue, clock: ManualClock) -> None:
    await put(queue, new("a", b"body", label="l"), new("b"))
    a, b = await claim(queue, clock)
    clock.advance(5)
    dead = ended(a, Verdict.DEAD, clock.now(), status=422, reason="r" * 5_000)
    await queue.settle([dead, ended(b, Verdict.DEAD, clock.now())])
    first, second = await queue.dead_list(limit=10)
    assert (first.id, first.status, first.label) == ("a", 422, "l")
    assert (first.body, first.body_bytes, first.attempts) == (None, 4, 1)
    assert first.died_at - first.created_at == timedelta(seconds=5)
    assert len(first.reason) == 1_000
    assert second.status is None
    assert [d.id for d in await queue.dead_list(limit=10, after=first.rowid)] == ["b"]
    assert [d.id for d in await queue.dead_list(limit=1)] == ["a"]
    assert [d.body for d in await queue.dead_show("a")] == [b"body"]
    assert await queue.dead_show("nobody") == []


async def test_a_collectors_dead_letter_keeps_channel_and_digest(store: Store, clock: ManualClock) -> None:
    await store.put([new("a", channel="c", digest=b"d")])
    await end_all(store, clock, Verdict.DEAD)
    assert [(dead.channel, dead.digest) for dead in await store.dead_list(limit=10)] == [("c", b"d")]


async def test_requeue_brings_back_the_body_due_now(queue: Queue, clock: ManualClock) -> None:
    await put_ids(queue, "a", "b", "c")
    await end_all(queue, clock, Verdict.DEAD, status=400)
    assert await queue.dead_requeue(["b", "nobody"]) == 1
    (record,) = await claim(queue, clock)
    assert (record.id, record.body, record.attempts) == ("b", b'"b"', 0)
    assert await queue.dead_requeue(None) == 2
    assert await queue.dead_requeue(None) == 0
    assert ids(await claim(queue, clock)) == ["a", "c"]
    stats = await queue.stats()
    assert (stats.dead, stats.waiting, stats.bytes) == (0, 3, 9)


async def test_dropped_letters_are_forgotten_for_good(queue: Queue, clock: ManualClock) -> None:
    await put_ids(queue, "a", "b", "c")
    await end_all(queue, clock, Verdict.DEAD)
    assert await queue.dead_drop(["a"]) == 1
    assert await put_one(queue, new("a")) is PutOutcome.STORED
    assert await queue.dead_drop(None) == 2
    assert (await queue.stats()).dead == 0


async def test_dropped_letters_take_their_channels_with_them(store: Store, clock: ManualClock) -> None:
    await store.put([new("a", channel="c"), new("a", channel="c")])
    await end_all(store, clock, Verdict.DEAD)
    assert await store.dead_drop(["a"]) == 1
    assert await store.sightings("a") == []


async def test_requeue_and_drop_work_through_many(queue: Queue, clock: ManualClock) -> None:
    names = [f"id{n}" for n in range(1_203)]
    await put_ids(queue, *names)
    await queue.settle([ended(r, Verdict.DEAD, clock.now()) for r in await claim(queue, clock, limit=2_000)])
    assert await queue.dead_requeue(names[:700]) == 700
    assert await queue.dead_requeue(None) == 503
    await queue.settle([ended(r, Verdict.DEAD, clock.now()) for r in await claim(queue, clock, limit=2_000)])
    assert await queue.dead_drop(names[:601]) == 601
    assert await queue.dead_drop(None) == 602


async def test_a_storm_becomes_its_last_record_and_a_count(store: Store, clock: ManualClock) -> None:
    counts = [await store.hold("k", new(f"{n}", f"{n}".encode(), channel="c")) for n in range(5)]
    assert counts == [1, 2, 3, 4, 5]
    assert await store.hold("k", new("4")) == 5
    assert (await store.stats()).held == 1
    assert await claim(store, clock) == []
    (released,) = await store.release_held(key="k")
    assert (released.key, released.count, released.result.id) == ("k", 5, "4")
    assert released.result.outcome is PutOutcome.STORED
    assert [(r.id, r.body) for r in await claim(store, clock)] == [("4", b"4")]
    assert await store.release_held(key="k") == []
    assert (await store.stats()).held == 0


async def test_held_records_are_released_by_age(store: Store, clock: ManualClock) -> None:
    await store.hold("\ud800old", new("1"))
    clock.advance(10)
    await store.hold("\ud800old", new("2"))
    await store.hold("new", new("3"))
    released = await store.release_held(before=clock.now())
    assert [(r.key, r.count) for r in released] == [("\ud800old", 2)]
    await store.hold("newer", new("4"))
    assert [r.key for r in await store.release_held(limit=1)] == ["new"]
    assert [r.key for r in await store.release_held()] == ["newer"]


async def test_a_held_copy_of_a_known_record_is_not_counted(store: Store) -> None:
    await put_ids(store, "a")
    assert await store.hold("k", new("a")) == 0
    assert await store.hold("k", new("b")) == 1
    await put_ids(store, "b")
    (released,) = await store.release_held(key="k")
    assert released.result.outcome is PutOutcome.DUPLICATE


async def test_a_held_record_takes_its_stamp_when_it_is_held(store: Store) -> None:
    await store.hold("k", new(lambda stamp: f"n{stamp.number}"))
    await store.hold("k", new(lambda stamp: f"n{stamp.number}"))
    (released,) = await store.release_held()
    assert released.result.id == "n2"


async def test_prune_forgets_the_old_a_bounded_number_a_call(store: Store, clock: ManualClock) -> None:
    await store.put([new(f"{n}", channel="c") for n in range(250)])
    await put_one(store, new("0", channel="c"))
    await end_all(store, clock, Verdict.DELIVERED)
    assert await store.prune(keep_all(clock)) == 0
    clock.advance(31 * 24 * 3600)
    await put_ids(store, "young")
    await end_all(store, clock, Verdict.DELIVERED)
    assert [await store.prune(keep_all(clock)) for _ in range(4)] == [100, 100, 50, 0]
    assert (await store.stats()).seen == 1
    assert await store.sightings("0") == []
    assert await put_one(store, new("0")) is PutOutcome.STORED
    assert await put_one(store, new("young")) is PutOutcome.DUPLICATE


async def test_prune_bounds_the_rows_oldest_first(store: Store, clock: ManualClock) -> None:
    await put_ids(store, *[f"{n}" for n in range(10)])
    await end_all(store, clock, Verdict.DELIVERED)
    assert await store.prune(replace(keep_all(clock), seen_rows_max=4)) == 6
    assert await put_one(store, new("6")) is PutOutcome.DUPLICATE
    assert await put_one(store, new("5")) is PutOutcome.STORED


async def test_prune_leaves_dead_letters_that_were_not_exported(store: Store, clock: ManualClock) -> None:
    await put_ids(store, "a", "b", "c", "d")
    await end_all(store, clock, Verdict.DEAD)
    second = (await store.dead_list(limit=10))[1]
    limits = replace(keep_all(clock), dead_rows_max=1, dead_through=second.rowid)
    assert await store.prune(limits) == 2
    assert [d.id for d in await store.dead_list(limit=10)] == ["c", "d"]
    clock.advance(31 * 24 * 3600)
    assert await store.prune(replace(keep_all(clock), dead_through=0)) == 0
    assert await store.prune(keep_all(clock)) == 2


async def test_prune_forgets_the_subject_that_changed_longest_ago(store: Store, clock: ManualClock) -> None:
    for key in ["a", "b", "c"]:
        await put_one(store, guarded(key, GuardMode.SNAPSHOT, key=key, m=b"1"))
    await put_one(store, guarded("a2", GuardMode.SNAPSHOT, key="a", m=b"2"))
    assert await store.prune(replace(keep_all(clock), last_rows_max=2)) == 1
    again = [
        await put_one(store, guarded(f"{key}3", GuardMode.SNAPSHOT, key=key, m=value))
        for key, value in [("a", b"2"), ("c", b"1"), ("b", b"1")]
    ]
    assert again == [PutOutcome.SUPPRESSED, PutOutcome.SUPPRESSED, PutOutcome.STORED]
