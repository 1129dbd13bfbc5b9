"""What every store promises: put, claim, settle, release (law 4, contract §4)."""

from __future__ import annotations

import asyncio

import pytest

from outbox.clock import ManualClock
from outbox.record import Guard, GuardMode, PutOutcome, Stamp
from outbox.store import SIGHTING_CHANNELS_MAX, Queue, Store
from outbox.verdict import Verdict
from tests.outbox.records import claim, end_all, ended, guarded, ids, later, new, put, put_ids, put_one, seen

TRANSITION, SNAPSHOT, CLEAR = GuardMode.TRANSITION, GuardMode.SNAPSHOT, GuardMode.CLEAR
STORED, SUPPRESSED = PutOutcome.STORED, PutOutcome.SUPPRESSED


async def test_what_was_put_is_claimed_in_order_with_its_body(queue: Queue, clock: ManualClock) -> None:
    body = bytes(range(256)) * 100
    await put(queue, new("a", body, label="l"), new("b", b""))
    first, second = await claim(queue, clock)
    assert (first.id, first.body, first.label, first.attempts) == ("a", body, "l", 0)
    assert (second.id, second.body, second.created_at) == ("b", b"", clock.now())


async def test_a_collectors_record_is_claimed_with_its_digest(store: Store, clock: ManualClock) -> None:
    await store.put([new("a", digest=b"d")])
    assert [record.digest for record in await claim(store, clock)] == [b"d"]


async def test_a_claimed_record_is_nobody_elses(queue: Queue, clock: ManualClock) -> None:
    await put_ids(queue, "a", "b", "c")
    assert ids(await claim(queue, clock, limit=2)) == ["a", "b"]
    assert ids(await claim(queue, clock)) == ["c"]
    assert await claim(queue, clock) == []
    assert await queue.next_due() is None
    stats = await queue.stats()
    assert (stats.waiting, stats.claimed) == (3, 3)


async def test_release_puts_a_record_back_as_it_was(queue: Queue, clock: ManualClock) -> None:
    await put_ids(queue, "a", "b")
    first = await claim(queue, clock, limit=1)
    assert await queue.release(first) == 1
    assert await queue.release(first) == 0
    again = await claim(queue, clock)
    assert ids(again) == ["a", "b"]
    assert again[0].attempts == 0
    assert again[0].lease != first[0].lease


async def test_bytes_bound_a_claim_but_never_stop_it(queue: Queue, clock: ManualClock) -> None:
    await put(queue, new("a", b"x" * 60), new("b", b"x" * 60), new("c", b"x" * 10))
    assert ids(await claim(queue, clock, bytes_max=1)) == ["a"]
    assert ids(await claim(queue, clock, bytes_max=70)) == ["b", "c"]


async def test_only_the_holder_of_the_lease_settles(queue: Queue, clock: ManualClock) -> None:
    await put_ids(queue, "a")
    (old,) = await claim(queue, clock)
    await queue.release([old])
    (current,) = await claim(queue, clock)
    assert await queue.settle([ended(old, Verdict.DELIVERED, clock.now())]) == 0
    assert await queue.release([old]) == 0
    assert (await queue.stats()).waiting == 1
    assert await queue.settle([ended(current, Verdict.DELIVERED, clock.now())]) == 1
    assert await queue.settle([ended(current, Verdict.DELIVERED, clock.now())]) == 0
    stats = await queue.stats()
    assert (stats.waiting, stats.claimed, stats.bytes, await seen(queue)) == (0, 0, 0, 1)


async def test_retry_sets_the_schedule_and_counts_an_attempt(queue: Queue, clock: ManualClock) -> None:
    await put_ids(queue, "a", "b")
    a, b = await claim(queue, clock)
    due_at = later(clock, 60)
    retry = ended(a, Verdict.RETRY, clock.now(), due_at=due_at, status=503, reason="away")
    unspent = ended(b, Verdict.RETRY, clock.now(), due_at=later(clock, 90), spent=False)
    assert await queue.settle([retry, unspent]) == 2
    assert await claim(queue, clock) == []
    assert await queue.next_due() == due_at
    clock.advance(60)
    assert [(r.id, r.attempts) for r in await claim(queue, clock)] == [("a", 1)]
    clock.advance(30)
    assert [(r.id, r.attempts) for r in await claim(queue, clock)] == [("b", 0)]


async def test_first_due_is_claimed_first(queue: Queue, clock: ManualClock) -> None:
    await put_ids(queue, "old")
    (old,) = await claim(queue, clock)
    await queue.settle([ended(old, Verdict.RETRY, clock.now(), due_at=later(clock, 5))])
    clock.advance(3)
    await put_ids(queue, "early")
    clock.advance(4)
    await put_ids(queue, "late")
    assert ids(await claim(queue, clock)) == ["early", "old", "late"]


@pytest.mark.parametrize("verdict", [None, Verdict.DELIVERED, Verdict.DEAD])
async def test_a_copy_is_known_whether_waiting_delivered_or_dead(
    queue: Queue, clock: ManualClock, verdict: Verdict | None
) -> None:
    await put(queue, new("a"))
    if verdict is not None:
        assert await end_all(queue, clock, verdict) == 1
    assert await put(queue, new("b"), new("a", b"other")) == [STORED, PutOutcome.DUPLICATE]
    assert (await queue.stats()).waiting == (2 if verdict is None else 1)


@pytest.mark.parametrize("verdict", [None, Verdict.DELIVERED, Verdict.DEAD])
async def test_another_digest_is_a_record_of_its_own(
    store: Store, clock: ManualClock, verdict: Verdict | None
) -> None:
    await store.put([new("a", digest=b"1")])
    if verdict is not None:
        assert await end_all(store, clock, verdict) == 1
    assert await put_one(store, new("a", digest=b"1")) is PutOutcome.DUPLICATE
    assert await put_one(store, new("a", digest=b"2")) is PutOutcome.CONFLICT
    assert await put_one(store, new("a", digest=b"2")) is PutOutcome.DUPLICATE
    assert (await store.stats()).waiting == (2 if verdict is None else 1)


async def test_copies_in_one_put_are_one_record(queue: Queue, clock: ManualClock) -> None:
    assert await put(queue, new("a"), new("a"), new("b")) == [STORED, PutOutcome.DUPLICATE, STORED]
    assert ids(await claim(queue, clock)) == ["a", "b"]


async def test_copies_in_one_put_with_other_digests_are_two(store: Store, clock: ManualClock) -> None:
    outcomes = await put(store, new("a"), new("a", digest=b"x"))
    assert outcomes == [STORED, PutOutcome.CONFLICT]
    assert ids(await claim(store, clock)) == ["a", "a"]


async def test_concurrent_copies_are_one_record(queue: Queue, clock: ManualClock) -> None:
    outcomes = await asyncio.gather(*[put_one(queue, new("a")) for _ in range(50)])
    assert outcomes.count(STORED) == 1
    assert outcomes.count(PutOutcome.DUPLICATE) == 49
    assert len(await claim(queue, clock)) == 1


async def test_stamps_count_only_the_records_that_need_one(store: Store) -> None:
    stamps: list[Stamp] = []

    def make(stamp: Stamp) -> str:
        stamps.append(stamp)
        return f"{stamp.epoch}-{stamp.number}"

    results = await store.put([new(make), new("named"), new(make)])
    assert [result.id for result in results] == [f"{store.epoch}-1", "named", f"{store.epoch}-2"]
    assert [stamp.number for stamp in stamps] == [1, 2]


async def test_a_failing_record_fails_its_whole_put_and_no_neighbour(
    store: Store, clock: ManualClock
) -> None:
    def refuse(_stamp: Stamp) -> str:
        raise LookupError("no id")

    bad = guarded("inside", TRANSITION, h=b"1")
    puts = [store.put([new(f"good{n}")]) for n in range(20)]
    failing = store.put([bad, new(lambda stamp: f"n{stamp.number}"), new(refuse)])
    results = await asyncio.gather(*puts[:10], failing, *puts[10:], return_exceptions=True)
    assert isinstance(results[10], LookupError)
    assert sorted(ids(await claim(store, clock))) == sorted(f"good{n}" for n in range(20))
    assert await put_one(store, bad) is STORED
    (stamped,) = await store.put([new(lambda stamp: str(stamp.number))])
    assert stamped.id == "1"


async def test_transition_is_suppressed_when_it_equals_the_last(store: Store) -> None:
    outcomes = [
        await put_one(store, guarded(f"{n}", TRANSITION, h=state))
        for n, state in enumerate([b"open", b"open", b"close", b"open"])
    ]
    assert outcomes == [STORED, SUPPRESSED, STORED, STORED]
    assert await put_one(store, guarded("other", TRANSITION, key="k2", h=b"open")) is STORED


async def test_snapshot_is_suppressed_when_each_member_it_carries_is_kept(store: Store) -> None:
    steps: list[tuple[dict[str, bytes], PutOutcome]] = [
        ({"name": b"ana"}, STORED),
        ({"name": b"bia", "img": b"p"}, STORED),
        ({"img": b"p"}, SUPPRESSED),
        ({"name": b"ana"}, STORED),
        ({"img": b"p"}, SUPPRESSED),
        ({"name": b"ana", "img": b"p"}, SUPPRESSED),
        ({"status": b"s"}, STORED),
        ({}, SUPPRESSED),
    ]
    for n, (members, outcome) in enumerate(steps):
        record = new(f"{n}", guard=Guard(key="k", mode=SNAPSHOT, members=members))
        assert await put_one(store, record) is outcome, n


async def test_clear_is_a_row_once_and_forgets_the_subject(store: Store) -> None:
    assert await put_one(store, guarded("1", SNAPSHOT, name=b"ana")) is STORED
    assert await put_one(store, guarded("2", CLEAR)) is STORED
    assert await put_one(store, guarded("3", SNAPSHOT, name=b"ana")) is STORED
    assert await put_one(store, guarded("4", CLEAR)) is STORED
    assert await put_one(store, guarded("5", CLEAR)) is SUPPRESSED
    assert await put_one(store, guarded("6", SNAPSHOT, name=b"ana")) is STORED
    assert await put_one(store, guarded("7", CLEAR)) is STORED


async def test_a_copy_whose_id_is_known_changes_nothing_of_the_subject(store: Store) -> None:
    await put_one(store, guarded("1", SNAPSHOT, name=b"ana"))
    await put_one(store, guarded("2", SNAPSHOT, name=b"bia"))
    assert await put_one(store, guarded("1", SNAPSHOT, name=b"ana")) is PutOutcome.DUPLICATE
    assert await put_one(store, guarded("3", SNAPSHOT, name=b"bia")) is SUPPRESSED
    assert await put_one(store, guarded("2", CLEAR)) is PutOutcome.DUPLICATE
    assert await put_one(store, guarded("4", SNAPSHOT, name=b"bia")) is SUPPRESSED


async def test_a_suppressed_record_takes_no_stamp(store: Store) -> None:
    await put_one(store, guarded(lambda stamp: str(stamp.number), TRANSITION, h=b"1"))
    (result,) = await store.put([guarded(lambda stamp: str(stamp.number), TRANSITION, h=b"1")])
    assert (result.outcome, result.id) == (SUPPRESSED, "")
    (result,) = await store.put([guarded(lambda stamp: str(stamp.number), TRANSITION, h=b"2")])
    assert result.id == "2"


async def test_keys_that_differ_in_lone_surrogates_are_two_subjects(store: Store) -> None:
    assert await put_one(store, guarded("1", TRANSITION, key="\ud800", h=b"1")) is STORED
    assert await put_one(store, guarded("2", TRANSITION, key="\ud801", h=b"1")) is STORED
    assert await put_one(store, guarded("3", TRANSITION, key="\ud800", h=b"1")) is SUPPRESSED


async def test_text_for_people_never_fails_a_put(queue: Queue) -> None:
    record = new("a", label="\ud800\x00l")
    assert await put_one(queue, record) is STORED
    assert await put_one(queue, record) is PutOutcome.DUPLICATE


async def test_a_channel_for_people_never_fails_a_put(store: Store) -> None:
    assert await put_one(store, new("a", channel="\udfffc")) is STORED


async def test_channels_are_remembered_with_first_last_and_times(store: Store, clock: ManualClock) -> None:
    first_at = clock.now()
    await store.put([new("a", channel="webhook")])
    clock.advance(1)
    await store.put([new("a", channel="rabbitmq")])
    await end_all(store, clock, Verdict.DELIVERED)
    clock.advance(1)
    await store.put([new("a", channel="webhook"), new("a", channel="webhook"), new("b")])
    seen = [(s.channel, s.first_at, s.last_at, s.times) for s in await store.sightings("a")]
    assert seen == [
        ("webhook", first_at, later(clock, 0), 3),
        ("rabbitmq", later(clock, -1), later(clock, -1), 1),
    ]
    assert await store.sightings("b") == []


async def test_channels_of_a_record_are_bounded(store: Store) -> None:
    await store.put([new("a", channel=f"c{n}") for n in range(SIGHTING_CHANNELS_MAX + 10)])
    assert len(await store.sightings("a")) == SIGHTING_CHANNELS_MAX + 1


async def test_meta_is_kept_and_overwritten(store: Store) -> None:
    assert await store.get_meta("k") is None
    await store.set_meta("k", b"1")
    await store.set_meta("k", b"\x002")
    assert await store.get_meta("k") == b"\x002"


async def test_stats_tell_depth_bytes_and_the_oldest(queue: Queue, clock: ManualClock) -> None:
    oldest_at = clock.now()
    await put(queue, new("a", b"x" * 10), new("b", b"x" * 5))
    clock.advance(9)
    await put(queue, new("c", b"x"))
    stats = await queue.stats()
    assert (stats.waiting, stats.bytes, stats.oldest_at) == (3, 16, oldest_at)
    a, b, _c = await claim(queue, clock)
    delivered, dead = ended(a, Verdict.DELIVERED, clock.now()), ended(b, Verdict.DEAD, clock.now())
    await queue.settle([delivered, dead])
    stats = await queue.stats()
    assert (stats.waiting, stats.claimed, stats.bytes, stats.dead) == (1, 1, 1, 1)
    assert await seen(queue) == 1
    assert stats.oldest_at == clock.now()
