"""What every store promises: put, claim, settle, release (law 4, contract §4)."""

from __future__ import annotations

import asyncio

import pytest

from outbox.clock import ManualClock
from outbox.record import Guard, GuardMode, PutOutcome, Stamp
from outbox.store import SIGHTING_CHANNELS_MAX, Store
from outbox.verdict import Verdict
from tests.outbox.records import claim, end_all, ended, guarded, ids, later, new, put_ids, put_one

TRANSITION, SNAPSHOT, CLEAR = GuardMode.TRANSITION, GuardMode.SNAPSHOT, GuardMode.CLEAR
STORED, SUPPRESSED = PutOutcome.STORED, PutOutcome.SUPPRESSED


async def test_what_was_put_is_claimed_in_order_with_its_body(store: Store, clock: ManualClock) -> None:
    body = bytes(range(256)) * 100
    await store.put([new("a", body, label="l", digest=b"d"), new("b", b"")])
    first, second = await claim(store, clock)
    assert (first.id, first.body, first.label, first.digest, first.attempts) == ("a", body, "l", b"d", 0)
    assert (second.id, second.body, second.created_at) == ("b", b"", clock.now())


async def test_a_claimed_record_is_nobody_elses(store: Store, clock: ManualClock) -> None:
    await put_ids(store, "a", "b", "c")
    assert ids(await claim(store, clock, limit=2)) == ["a", "b"]
    assert ids(await claim(store, clock)) == ["c"]
    assert await claim(store, clock) == []
    assert await store.next_due() is None
    stats = await store.stats()
    assert (stats.waiting, stats.claimed) == (3, 3)


async def test_release_puts_a_record_back_as_it_was(store: Store, clock: ManualClock) -> None:
    await put_ids(store, "a", "b")
    first = await claim(store, clock, limit=1)
    assert await store.release(first) == 1
    assert await store.release(first) == 0
    again = await claim(store, clock)
    assert ids(again) == ["a", "b"]
    assert again[0].attempts == 0
    assert again[0].lease != first[0].lease


async def test_bytes_bound_a_claim_but_never_stop_it(store: Store, clock: ManualClock) -> None:
    await store.put([new("a", b"x" * 60), new("b", b"x" * 60), new("c", b"x" * 10)])
    assert ids(await claim(store, clock, bytes_max=1)) == ["a"]
    assert ids(await claim(store, clock, bytes_max=70)) == ["b", "c"]


async def test_only_the_holder_of_the_lease_settles(store: Store, clock: ManualClock) -> None:
    await put_ids(store, "a")
    (old,) = await claim(store, clock)
    await store.release([old])
    (current,) = await claim(store, clock)
    assert await store.settle([ended(old, Verdict.DELIVERED, clock.now())]) == 0
    assert await store.release([old]) == 0
    assert (await store.stats()).waiting == 1
    assert await store.settle([ended(current, Verdict.DELIVERED, clock.now())]) == 1
    assert await store.settle([ended(current, Verdict.DELIVERED, clock.now())]) == 0
    stats = await store.stats()
    assert (stats.waiting, stats.claimed, stats.seen, stats.bytes) == (0, 0, 1, 0)


async def test_retry_sets_the_schedule_and_counts_an_attempt(store: Store, clock: ManualClock) -> None:
    await put_ids(store, "a", "b")
    a, b = await claim(store, clock)
    due_at = later(clock, 60)
    retry = ended(a, Verdict.RETRY, clock.now(), due_at=due_at, status=503, reason="away")
    unspent = ended(b, Verdict.RETRY, clock.now(), due_at=later(clock, 90), spent=False)
    assert await store.settle([retry, unspent]) == 2
    assert await claim(store, clock) == []
    assert await store.next_due() == due_at
    clock.advance(60)
    assert [(r.id, r.attempts) for r in await claim(store, clock)] == [("a", 1)]
    clock.advance(30)
    assert [(r.id, r.attempts) for r in await claim(store, clock)] == [("b", 0)]


async def test_first_due_is_claimed_first(store: Store, clock: ManualClock) -> None:
    await put_ids(store, "old")
    (old,) = await claim(store, clock)
    await store.settle([ended(old, Verdict.RETRY, clock.now(), due_at=later(clock, 5))])
    clock.advance(3)
    await put_ids(store, "early")
    clock.advance(4)
    await put_ids(store, "late")
    assert ids(await claim(store, clock)) == ["early", "old", "late"]


@pytest.mark.parametrize("verdict", [None, Verdict.DELIVERED, Verdict.DEAD])
async def test_a_copy_is_known_whether_waiting_delivered_or_dead(
    store: Store, clock: ManualClock, verdict: Verdict | None
) -> None:
    await store.put([new("a", digest=b"1")])
    if verdict is not None:
        assert await end_all(store, clock, verdict) == 1
    assert await put_one(store, new("a", digest=b"1")) is PutOutcome.DUPLICATE
    assert await put_one(store, new("a", digest=b"2")) is PutOutcome.CONFLICT
    assert await put_one(store, new("a", digest=b"2")) is PutOutcome.DUPLICATE
    assert (await store.stats()).waiting == (2 if verdict is None else 1)


async def test_copies_in_one_put_are_one_record(store: Store, clock: ManualClock) -> None:
    results = await store.put([new("a"), new("a"), new("a", digest=b"x")])
    assert [r.outcome for r in results] == [STORED, PutOutcome.DUPLICATE, PutOutcome.CONFLICT]
    assert ids(await claim(store, clock)) == ["a", "a"]


async def test_concurrent_copies_are_one_record(store: Store, clock: ManualClock) -> None:
    results = await asyncio.gather(*[store.put([new("a")]) for _ in range(50)])
    outcomes = [result.outcome for (result,) in results]
    assert outcomes.count(STORED) == 1
    assert outcomes.count(PutOutcome.DUPLICATE) == 49
    assert len(await claim(store, clock)) == 1


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


async def test_text_for_people_never_fails_a_put(store: Store) -> None:
    record = new("a", label="\ud800\x00l", channel="\udfffc")
    assert await put_one(store, record) is STORED
    assert await put_one(store, record) is PutOutcome.DUPLICATE


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


async def test_stats_tell_depth_bytes_and_the_oldest(store: Store, clock: ManualClock) -> None:
    oldest_at = clock.now()
    await store.put([new("a", b"x" * 10), new("b", b"x" * 5)])
    clock.advance(9)
    await store.put([new("c", b"x")])
    stats = await store.stats()
    assert (stats.waiting, stats.bytes, stats.oldest_at) == (3, 16, oldest_at)
    a, b, _c = await claim(store, clock)
    delivered, dead = ended(a, Verdict.DELIVERED, clock.now()), ended(b, Verdict.DEAD, clock.now())
    await store.settle([delivered, dead])
    stats = await store.stats()
    assert (stats.waiting, stats.claimed, stats.bytes, stats.seen, stats.dead) == (1, 1, 1, 1, 1)
    assert stats.oldest_at == clock.now()
