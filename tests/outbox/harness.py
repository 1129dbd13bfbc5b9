"""A shipper at work on a store, a scripted other side and a clock that only the test moves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from outbox.clock import ManualClock
from outbox.shipper import Shipper, ShipperConfig
from outbox.shipper_events import ShipperEvent
from outbox.store import Queue
from tests.outbox.records import put_ids
from tests.support.scripted_transport import Script, ScriptedTransport

DEADLINE_S: Final = 10.0
TURNS_AT_REST: Final = 5


@dataclass
class Ship:
    store: Queue
    clock: ManualClock
    transport: ScriptedTransport
    shipper: Shipper
    events: list[ShipperEvent] = field(default_factory=list)

    async def rest(self) -> None:
        """Return when nothing moves any more without the clock, a wake or an answer."""
        deadline = time.monotonic() + DEADLINE_S
        at_rest = 0
        while at_rest < TURNS_AT_REST:
            assert time.monotonic() < deadline, "the shipper does not come to rest"
            idle = self.clock.waiting > 0 and self.shipper.state().in_flight == len(self.transport.hanging)
            at_rest = at_rest + 1 if idle else 0
            await asyncio.sleep(0 if idle else 0.001)

    async def put_and_rest(self, *ids: str) -> None:
        await put_ids(self.store, *ids)
        self.shipper.wake()
        await self.rest()

    async def pass_time(self, seconds: float, step_s: float = 1.0) -> None:
        """Let time pass in steps, each until all is at rest."""
        left = seconds
        while left > 0:
            self.clock.advance(min(step_s, left))
            left -= step_s
            await self.rest()

    async def pass_until(self, condition: Callable[[], bool], *, at_most_s: float) -> float:
        """Let time pass until the condition holds; returns how many seconds that took."""
        passed = 0.0
        while not condition():
            assert passed < at_most_s, f"not within {at_most_s} s"
            await self.pass_time(0.5)
            passed += 0.5
        return passed

    def names(self) -> list[str]:
        return [event.name for event in self.events]

    async def waiting(self) -> int:
        return (await self.store.stats()).waiting


@contextlib.asynccontextmanager
async def shipping(
    store: Queue,
    clock: ManualClock,
    script: Script,
    *,
    batch_records_max: int = 8,
    in_flight_max: int = 2,
    solo_in_flight_max: int = 2,
) -> AsyncIterator[Ship]:
    """Run a shipper for the time of the block; its failure fails the block."""
    events: list[ShipperEvent] = []
    transport = ScriptedTransport(script=script)
    config = ShipperConfig(
        batch_records_max=batch_records_max,
        in_flight_max=in_flight_max,
        solo_in_flight_max=solo_in_flight_max,
        linger_s=0,
    )
    shipper = Shipper(store, transport, clock, config, events.append)
    stop = asyncio.Event()
    running = asyncio.create_task(shipper.run(stop))
    ship = Ship(store=store, clock=clock, transport=transport, shipper=shipper, events=events)
    try:
        yield ship
    finally:
        transport.let_go()
        stop.set()
        await running


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until the condition holds; the clock stands still."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.001)
