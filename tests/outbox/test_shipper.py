"""Contract §3 as scenarios: each test is one of its sentences, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from outbox.clock import ManualClock
from outbox.record import Record
from outbox.shipper import Shipper, ShipperConfig
from outbox.shipper_events import RecordDead, ShipperHalted, ShipperPaused, ShipperResumed
from outbox.store import Claiming, Queue, Store, StoreUnavailable
from outbox.transport import Answer, RecordReceipt
from outbox.verdict import TransportFailure
from tests.outbox.harness import shipping, until
from tests.outbox.records import claim, ids, new, put_ids, seen
from tests.support.faults import FaultPoint, FaultyStore
from tests.support.scripted_transport import ScriptedTransport

NAMES = [f"r{n:02}" for n in range(20)]


class Switch:
    """A script that answers ``answer`` while it is set."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer

    def __call__(self, records: Sequence[Record]) -> Answer | None:
        return self.answer


async def test_what_is_put_is_delivered_once_and_remembered(queue: Queue, clock: ManualClock) -> None:
    async with shipping(queue, clock, Switch()) as ship:
        await ship.put_and_rest(*NAMES)
        assert sorted(ship.transport.delivered) == NAMES
        stats = await queue.stats()
        assert (stats.waiting, stats.claimed, await seen(queue)) == (0, 0, 20)
        assert max(len(request) for request in ship.transport.requests) == 8
        assert ship.events == []
        assert ship.shipper.state().delivered == 20


async def test_several_batches_fly_at_once_up_to_the_maximum(queue: Queue, clock: ManualClock) -> None:
    async with shipping(queue, clock, Switch(), in_flight_max=3, batch_records_max=2) as ship:
        ship.transport.hanging = {"r00", "r02", "r04"}
        await ship.put_and_rest(*NAMES)
        assert ship.transport.requests == [["r00", "r01"], ["r02", "r03"], ["r04", "r05"]]
        ship.transport.let_go()
        await ship.rest()
        assert ship.transport.in_flight_most == 3
        assert await ship.waiting() == 0


async def test_one_waiting_record_is_a_single_post(queue: Queue, clock: ManualClock) -> None:
    async with shipping(queue, clock, Switch()) as ship:
        await ship.put_and_rest("a")
        await ship.put_and_rest("b")
        assert ship.transport.requests == [["a"], ["b"]]


@pytest.mark.parametrize("status", [503, 500, 429, 408, 425, 100, TransportFailure.TIMEOUT])
async def test_an_outage_pauses_the_destination_and_spends_nothing(
    queue: Queue, clock: ManualClock, status: int | TransportFailure
) -> None:
    away = Switch(Answer(status=status, reason="away"))
    async with shipping(queue, clock, away) as ship:
        await ship.put_and_rest(*NAMES)
        at_once = len(ship.transport.requests)
        assert at_once <= 2
        await ship.pass_time(600)
        probes = ship.transport.requests[at_once:]
        assert all(len(probe) == 1 for probe in probes)
        assert 8 <= len(probes) <= 14
        assert ship.names() == ["shipper.paused"]
        assert (await queue.stats()).waiting == 20
        away.answer = None
        await ship.pass_until(lambda: len(ship.transport.delivered) == 20, at_most_s=310)
        assert ship.names() == ["shipper.paused", "shipper.resumed"]
        assert sorted(ship.transport.delivered) == NAMES


async def test_an_outage_rewrites_no_record(queue: Queue, clock: ManualClock) -> None:
    away = Switch(Answer(status=503))
    async with shipping(queue, clock, away) as ship:
        await ship.put_and_rest(*NAMES)
        await ship.pass_time(60)
    again = await claim(queue, clock)
    assert ids(again) == NAMES
    assert {record.attempts for record in again} == {0}


async def test_one_probe_at_a_time(queue: Queue, clock: ManualClock) -> None:
    away = Switch(Answer(status=503))
    async with shipping(queue, clock, away, in_flight_max=4) as ship:
        await ship.put_and_rest(*NAMES)
        before = len(ship.transport.requests)
        ship.transport.hanging = set(NAMES)
        clock.advance(2)
        await until(lambda: len(ship.transport.requests) > before)
        for _ in range(20):
            clock.advance(60)
            ship.shipper.wake()
            await asyncio.sleep(0.001)
        assert len(ship.transport.requests) == before + 1
        assert ship.transport.in_flight == 1


async def test_retry_after_moves_the_probe(queue: Queue, clock: ManualClock) -> None:
    away = Switch(Answer(status=429, retry_after="120"))
    async with shipping(queue, clock, away) as ship:
        await ship.put_and_rest("a")
        away.answer = None
        await ship.pass_time(119)
        assert ship.transport.delivered == []
        await ship.pass_time(30)
        assert ship.transport.delivered == ["a"]


@pytest.mark.parametrize("status", [401, 403, 404, 301, 307, 409, 451, 200, 204])
async def test_halt_keeps_all_and_tells_once(queue: Queue, clock: ManualClock, status: int) -> None:
    wrong = Switch(Answer(status=status, reason="misled"))
    async with shipping(queue, clock, wrong) as ship:
        await ship.put_and_rest(*NAMES)
        await ship.pass_time(600)
        assert [type(event) for event in ship.events] == [ShipperHalted]
        state = ship.shipper.state()
        assert (state.halted, state.halt_reason) == (True, "misled")
        assert state.next_probe_at is not None
        assert (await queue.stats()).waiting == 20
        wrong.answer = None
        await ship.pass_until(lambda: len(ship.transport.delivered) == 20, at_most_s=310)
        assert [type(event) for event in ship.events] == [ShipperHalted, ShipperResumed]
        resumed = ship.events[-1]
        assert isinstance(resumed, ShipperResumed)
        assert resumed.was_halted
        assert not ship.shipper.state().halted
    assert (await queue.stats()).dead == 0


async def test_an_outage_that_becomes_a_halt_is_told_as_one(queue: Queue, clock: ManualClock) -> None:
    away = Switch(Answer(status=503))
    async with shipping(queue, clock, away) as ship:
        await ship.put_and_rest("a")
        away.answer = Answer(status=401)
        await ship.pass_time(30)
        away.answer = Answer(status=503)
        await ship.pass_time(60)
        assert [type(event) for event in ship.events] == [ShipperPaused, ShipperHalted]
        assert ship.shipper.state().halted


@pytest.mark.parametrize("status", [400, 422])
async def test_a_bad_single_is_dead_and_the_queue_goes_on(
    queue: Queue, clock: ManualClock, status: int
) -> None:
    def script(records: Sequence[Record]) -> Answer | None:
        return Answer(status=status, reason=f"because-{status}") if "bad" in ids(records) else None

    async with shipping(queue, clock, script, batch_records_max=1) as ship:
        await ship.put_and_rest("a", "bad", "b")
        assert sorted(ship.transport.delivered) == ["a", "b"]
        assert ship.events == [RecordDead(id="bad", label="", status=status, reason=f"because-{status}")]
        (dead,) = await queue.dead_show("bad")
        assert (dead.status, dead.reason, dead.body) == (status, f"because-{status}", b'"bad"')


async def test_413_kills_a_single_only_when_it_is_our_own(queue: Queue, clock: ManualClock) -> None:
    proxy = Switch(Answer(status=413, too_large=False))
    async with shipping(queue, clock, proxy) as ship:
        await ship.put_and_rest("big")
        assert ship.names() == ["shipper.halted"]
        proxy.answer = Answer(status=413, too_large=True, reason="too-large")
        await ship.pass_until(lambda: ship.shipper.state().dead == 1, at_most_s=30)
        assert ship.names() == ["shipper.halted", "record.dead", "shipper.resumed"]


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refused_batch_is_halved_down_to_the_single_at_fault(
    queue: Queue, clock: ManualClock, status: int
) -> None:
    def script(records: Sequence[Record]) -> Answer | None:
        bad = "r05" in ids(records)
        return Answer(status=status, too_large=True, reason="bad") if bad else None

    async with shipping(queue, clock, script) as ship:
        await ship.put_and_rest(*NAMES[:8])
        assert sorted(ship.transport.delivered) == [name for name in NAMES[:8] if name != "r05"]
        assert [len(request) for request in ship.transport.requests] == [8, 4, 4, 2, 1, 1, 2]
        assert [event.name for event in ship.events] == ["record.dead"]
        assert clock.at == ManualClock().at


async def test_415_on_a_batch_is_split_and_then_halts(queue: Queue, clock: ManualClock) -> None:
    async with shipping(queue, clock, Switch(Answer(status=415))) as ship:
        await ship.put_and_rest(*NAMES[:4])
        assert [len(request) for request in ship.transport.requests] == [4, 2, 1]
        assert ship.names() == ["shipper.halted"]
        assert await ship.waiting() == 4


async def test_each_line_of_a_batch_has_its_own_fate(queue: Queue, clock: ManualClock) -> None:
    """B109: one rejected, one without an answer, one accepted; none hides another."""

    def script(records: Sequence[Record]) -> Answer | None:
        names = ids(records)
        if names == ["rejected"]:
            return Answer(status=422, reason="wrong-shape")
        receipts = {
            "stored": RecordReceipt(status="stored"),
            "duplicate": RecordReceipt(status="duplicate"),
            "rejected": RecordReceipt(status="rejected", code="wrong-shape"),
        }
        return Answer(status=200, receipts=receipts) if len(names) > 1 else None

    async with shipping(queue, clock, script) as ship:
        await ship.put_and_rest("rejected", "silent", "stored", "duplicate")
        assert ship.transport.requests == [["rejected", "silent", "stored", "duplicate"], ["rejected"]]
        assert ship.names() == ["record.delayed", "record.dead"]
        stats = await queue.stats()
        assert (await seen(queue), stats.dead, stats.waiting) == (2, 1, 1)
        await ship.pass_time(2)
        assert ship.transport.requests[2:] == [["silent"]]
        assert await ship.waiting() == 0


async def test_a_rejected_line_that_is_fine_alone_is_delivered(queue: Queue, clock: ManualClock) -> None:
    def script(records: Sequence[Record]) -> Answer | None:
        if len(records) == 1:
            return None
        return Answer(status=200, receipts={r.id: RecordReceipt(status="rejected") for r in records})

    async with shipping(queue, clock, script) as ship:
        await ship.put_and_rest("a", "b")
        assert ship.transport.requests == [["a", "b"], ["a"], ["b"]]
        assert (ship.names(), await ship.waiting()) == ([], 0)


async def test_a_batch_without_any_receipt_halts(queue: Queue, clock: ManualClock) -> None:
    strangers = {"someone-else": RecordReceipt(status="stored")}
    async with shipping(queue, clock, Switch(Answer(status=200, receipts=strangers))) as ship:
        await ship.put_and_rest("a", "b")
        assert ship.names() == ["shipper.halted"]
        assert await seen(queue) == 0


async def test_two_copies_with_different_digests_are_never_in_one_batch(
    store: Store, clock: ManualClock
) -> None:
    await store.put([new("a", digest=b"1"), new("a", digest=b"2"), new("b"), new("a", digest=b"3")])
    async with shipping(store, clock, Switch()) as ship:
        await ship.rest()
        assert sorted(map(sorted, ship.transport.requests)) == [["a"], ["a"], ["a", "b"]]
        assert await ship.waiting() == 0


class LosingStore:
    """A store some of whose leases somebody else has taken in the meantime."""

    def __init__(self, inner: Claiming, lost: set[str]) -> None:
        self._inner = inner
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def still_held(self, record: Record) -> bool:
        return record.id not in self._lost and self._inner.still_held(record)


async def test_what_is_not_held_any_more_is_not_sent(queue: Queue, clock: ManualClock) -> None:
    async with shipping(LosingStore(queue, {"b", "c", "d"}), clock, Switch(), batch_records_max=2) as ship:
        await put_ids(queue, "a", "b", "c", "d")
        ship.shipper.wake()
        await ship.rest()
        assert ship.transport.requests == [["a"]]
        assert ship.events == []


async def test_a_stop_waits_for_the_answer_on_its_way(queue: Queue, clock: ManualClock) -> None:
    async with shipping(queue, clock, Switch()) as ship:
        ship.transport.hanging = {"a"}
        await ship.put_and_rest("a")
    assert ship.transport.requests == [["a"]]
    assert await seen(queue) == 1


async def test_a_stop_does_not_wait_for_a_store_that_is_away(queue: Queue, clock: ManualClock) -> None:
    claims = 0

    def trip(_point: FaultPoint, name: str) -> None:
        nonlocal claims
        if name == "claim":
            claims += 1
            raise StoreUnavailable("the disk is full")

    transport = ScriptedTransport(script=Switch())
    config = ShipperConfig(drain_s_max=20)
    shipper = Shipper(FaultyStore(queue, trip), transport, clock, config, lambda _: None)
    stop = asyncio.Event()
    running = asyncio.create_task(shipper.run(stop))
    while claims < 9:
        clock.advance(300)
        await asyncio.sleep(0)
    await until(lambda: clock.waiting == 1)
    stop.set()
    await until(lambda: clock.waiting == 2)
    clock.advance(20)
    await asyncio.wait_for(running, 5)


async def test_a_failure_of_the_code_ends_the_run_and_gives_the_records_back(
    queue: Queue, clock: ManualClock
) -> None:
    def script(_records: Sequence[Record]) -> Answer | None:
        raise ZeroDivisionError

    await put_ids(queue, "a")
    with pytest.raises(ExceptionGroup, match="unhandled") as caught:
        async with shipping(queue, clock, script) as ship:
            await until(lambda: len(ship.transport.requests) == 1)
    assert caught.group_contains(ZeroDivisionError)
    assert ids(await claim(queue, clock)) == ["a"]
