"""One bad record, a storm of them, or a store that is away: the neighbours go on (contract §3, B109)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from outbox.clock import ManualClock
from outbox.record import Record
from outbox.shipper_events import RecordDelayed
from outbox.store import Store, StoreUnavailable
from outbox.transport import Answer
from outbox.verdict import TransportFailure
from tests.outbox.harness import shipping, until
from tests.outbox.records import claim, ids, new, put_ids
from tests.support.faults import FaultPoint, FaultyStore
from tests.support.scripted_transport import Script

NAMES = [f"r{n:02}" for n in range(32)]


def crashing_on(*poison: str, status: int | TransportFailure = 500) -> Script:
    """The other side falls over whenever one of these is in the request."""

    def script(records: Sequence[Record]) -> Answer | None:
        return Answer(status=status, reason="crash") if set(poison) & set(ids(records)) else None

    return script


@pytest.mark.parametrize("status", [500, TransportFailure.TIMEOUT, 403])
@pytest.mark.parametrize("poison", ["r00", "r13", "r31"])
async def test_a_poisoned_batch_is_halved_until_only_the_poison_waits(
    store: Store, clock: ManualClock, poison: str, status: int | TransportFailure
) -> None:
    async with shipping(store, clock, crashing_on(poison, status=status), batch_records_max=16) as ship:
        await ship.put_and_rest(*NAMES)
        took_s = await ship.pass_until(lambda: len(ship.transport.delivered) == 31, at_most_s=30)
        assert took_s < 15
        await ship.pass_until(lambda: "record.delayed" in ship.names(), at_most_s=60)
        assert sorted(ship.transport.delivered) == [name for name in NAMES if name != poison]
        assert await ship.waiting() == 1
        assert (await store.stats()).dead == 0


async def test_a_known_poison_does_not_pause_its_neighbours_again(store: Store, clock: ManualClock) -> None:
    async with shipping(store, clock, crashing_on("bad")) as ship:
        await ship.put_and_rest("bad", *NAMES)
        await ship.pass_until(lambda: "record.delayed" in ship.names(), at_most_s=60)
        pauses = ship.names().count("shipper.paused")
        for n in range(300):
            await ship.put_and_rest(f"later{n}")
            assert f"later{n}" in ship.transport.delivered
            await ship.pass_time(1)
        assert ship.names().count("shipper.paused") == pauses
        delays = [event for event in ship.events if isinstance(event, RecordDelayed)]
        assert [event.attempts for event in delays] == list(range(1, len(delays) + 1))
        assert 6 <= len(delays) <= 9


async def test_what_is_told_of_a_delay_holds_nothing_of_a_strangers_answer(
    store: Store, clock: ManualClock
) -> None:
    def script(records: Sequence[Record]) -> Answer | None:
        bad = any(record.id == "bad" for record in records)
        return Answer(status=500, reason="500", detail="text of a message") if bad else None

    async with shipping(store, clock, script) as ship:
        await ship.put_and_rest("bad", *NAMES)
        await ship.pass_until(lambda: "record.delayed" in ship.names(), at_most_s=60)
        delays = [event for event in ship.events if isinstance(event, RecordDelayed)]
        assert {event.reason for event in delays} == {"500"}


async def test_a_delayed_poison_goes_alone(store: Store, clock: ManualClock) -> None:
    async with shipping(store, clock, crashing_on("bad")) as ship:
        await ship.put_and_rest("bad", *NAMES)
        await ship.pass_until(lambda: "record.delayed" in ship.names(), at_most_s=60)
        ship.transport.requests.clear()
        await ship.pass_time(120)
        assert ship.transport.requests
        assert all(request == ["bad"] for request in ship.transport.requests)


async def test_many_poisons_hanging_leave_room_for_the_rest(store: Store, clock: ManualClock) -> None:
    """Old offenders have places of their own; those without one wait their turn and spend nothing."""
    bad = [f"bad{n}" for n in range(6)]
    async with shipping(store, clock, crashing_on(*bad), batch_records_max=8) as ship:
        await ship.put_and_rest(*bad, *NAMES)
        await ship.pass_until(lambda: ship.names().count("record.delayed") >= 6, at_most_s=200)
        ship.transport.requests.clear()
        ship.transport.hanging = set(bad)
        for _ in range(30):
            clock.advance(10)
            await put_ids(store, f"n{clock.now().timestamp()}")
            ship.shipper.wake()
            await until(lambda: f"n{clock.now().timestamp()}" in ship.transport.delivered)
        stuck = [request for request in ship.transport.requests if request[0] in bad]
        assert len(stuck) == 2
        ship.transport.let_go()


async def test_a_probe_never_blames_its_record(store: Store, clock: ManualClock) -> None:
    """Also when something else succeeded after the record's first failure."""
    script = crashing_on("a")
    async with shipping(store, clock, script, batch_records_max=1) as ship:
        ship.transport.hanging = {"b"}
        await ship.put_and_rest("b")
        await ship.put_and_rest("a")
        assert ship.names() == ["shipper.paused"]
        ship.transport.let_go()
        await ship.rest()
        assert ship.transport.delivered == ["b"]
        await ship.pass_time(60)
        assert ship.names() == ["shipper.paused"]
        assert ship.transport.requests.count(["a"]) > 3
    assert [record.attempts for record in await claim(store, clock)] == [0]


async def test_a_straggler_of_the_next_outage_is_not_blamed_for_the_last_one(
    store: Store, clock: ManualClock
) -> None:
    """It fails twice with a success between, and both times the destination is away."""
    down = {"a"}

    def script(records: Sequence[Record]) -> Answer | None:
        if ids(records) == ["x"]:
            ship.transport.hanging = {"a"}
        return crashing_on(*down)(records)

    async with shipping(store, clock, script) as ship:
        await ship.put_and_rest("a")
        await ship.put_and_rest("x")
        await ship.pass_until(lambda: ship.transport.delivered == ["x"], at_most_s=10)
        await until(lambda: ship.transport.requests[-1] == ["a"])
        down.add("c")
        await ship.put_and_rest("c")
        assert ship.names() == ["shipper.paused", "shipper.resumed", "shipper.paused"]
        ship.transport.let_go()
        await ship.rest()
        assert "record.delayed" not in ship.names()
    assert {record.id: record.attempts for record in await claim(store, clock)} == {"a": 0, "c": 0}


async def test_a_probe_that_meets_the_poison_is_followed_by_another(store: Store, clock: ManualClock) -> None:
    async with shipping(store, clock, crashing_on("bad1", "bad2")) as ship:
        await ship.put_and_rest("bad1", "bad2", "good")
        await ship.pass_until(lambda: ship.transport.delivered == ["good"], at_most_s=15)
        assert ["bad1"] in ship.transport.requests
        assert "shipper.resumed" in ship.names()


async def test_a_big_poison_at_the_head_does_not_hide_the_rest(store: Store, clock: ManualClock) -> None:
    async with shipping(store, clock, crashing_on("big")) as ship:
        await store.put([new("big", b"x" * 8_000_000), new("good")])
        ship.shipper.wake()
        await ship.rest()
        await ship.pass_until(lambda: ship.transport.delivered == ["good"], at_most_s=15)


async def test_a_storm_of_dead_letters_halts(store: Store, clock: ManualClock) -> None:
    is_broken = True

    def script(_records: Sequence[Record]) -> Answer | None:
        return Answer(status=422, reason="urn:wrong-shape") if is_broken else None

    async with shipping(store, clock, script) as ship:
        await ship.put_and_rest(*NAMES)
        await ship.pass_time(600)
        assert (await store.stats()).dead == 20
        assert sorted(ship.names()) == ["record.dead"] * 20 + ["shipper.halted"]
        assert ship.shipper.state().halt_reason == "storm of dead letters: urn:wrong-shape"
        is_broken = False
        await ship.pass_until(lambda: len(ship.transport.delivered) == 12, at_most_s=310)
        assert ship.names()[-1] == "shipper.resumed"
    assert (await store.stats()).dead == 20


async def test_bad_records_among_many_good_ones_are_no_storm(store: Store, clock: ManualClock) -> None:
    bad = {f"x{n:03}" for n in range(0, 400, 4)}

    def script(records: Sequence[Record]) -> Answer | None:
        return Answer(status=400, reason="bad") if bad & set(ids(records)) else None

    async with shipping(store, clock, script) as ship:
        await ship.put_and_rest(*[f"x{n:03}" for n in range(400)])
        stats = await store.stats()
        assert (stats.dead, stats.seen, stats.waiting) == (100, 300, 0)
        assert "shipper.halted" not in ship.names()


async def test_different_reasons_are_no_storm(store: Store, clock: ManualClock) -> None:
    def script(records: Sequence[Record]) -> Answer | None:
        return Answer(status=400, reason=f"reason-{int(records[0].id[1:]) % 3}")

    async with shipping(store, clock, script) as ship:
        await ship.put_and_rest(*NAMES)
        assert (await store.stats()).dead == 32
        assert "shipper.halted" not in ship.names()


async def test_an_answer_outlives_a_store_that_is_away(store: Store, clock: ManualClock) -> None:
    """The answer is known; asking for it again would deliver twice."""
    is_full = True

    def trip(point: FaultPoint, name: str) -> None:
        if is_full and name == "settle" and point is FaultPoint.BEFORE_COMMIT:
            raise StoreUnavailable("disk full")

    await put_ids(store, *NAMES)
    async with shipping(FaultyStore(store, trip), clock, lambda _: None, batch_records_max=100) as ship:
        await until(lambda: NAMES[-1] in ship.transport.delivered)
        for _ in range(30):
            clock.advance(60)
            await until(lambda: NAMES[-1] in ship.transport.delivered)
        is_full = False
        await ship.pass_until(lambda: ship.shipper.state().in_flight == 0, at_most_s=600)
        await ship.pass_until(lambda: not ship.shipper.state().store_failing, at_most_s=600)
        assert ship.names() == ["store.failing", "store.recovered"]
        assert sorted(ship.transport.delivered) == NAMES
        assert (await store.stats()).seen == 32


async def test_a_store_that_cannot_be_read_is_tried_again(store: Store, clock: ManualClock) -> None:
    is_away = True

    def trip(_point: FaultPoint, name: str) -> None:
        if is_away and name in ("claim", "next_due"):
            raise StoreUnavailable("locked")

    await put_ids(store, "a")
    async with shipping(FaultyStore(store, trip), clock, lambda _: None) as ship:
        await ship.pass_time(30)
        assert ship.names() == ["store.failing"]
        is_away = False
        await ship.pass_until(lambda: ship.transport.delivered == ["a"], at_most_s=310)
        assert ship.names() == ["store.failing", "store.recovered"]


async def test_an_answer_that_was_lost_is_asked_for_again(store: Store, clock: ManualClock) -> None:
    """B116: the other side may have done the work; the id makes the second post a duplicate."""
    lost = [True]

    def script(_records: Sequence[Record]) -> Answer | None:
        return Answer(status=TransportFailure.DISCONNECTED) if lost and lost.pop() else None

    async with shipping(store, clock, script) as ship:
        await ship.put_and_rest("a")
        await ship.pass_time(2)
        assert ship.transport.requests == [["a"], ["a"]]
    assert await claim(store, clock) == []
