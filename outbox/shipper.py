"""The shipping loop: claims what is due and posts it through the destination's gate.

The rules are contract §3: what an answer means is in ``verdict``, what follows from it in ``shipment``, when
the gate is shut in ``gate``, who is sent with whom in ``suspects``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from outbox.clock import Clock
from outbox.leases import Leases
from outbox.record import Record
from outbox.shipment import Destination, ship
from outbox.shipper_events import ShipperEvent
from outbox.store import Claiming, Settlement
from outbox.transport import Transport
from outbox.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipperConfig:
    """Limits of the loop."""

    batch_records_max: int = 500
    batch_bytes_max: int = 4 * 1024 * 1024
    """Bodies of one request; a larger record goes alone."""
    in_flight_max: int = 4
    """Batches on their way at once; the order of delivery is not promised."""
    solo_in_flight_max: int = 4
    """Old offenders on their way at once, each alone; they never take a batch's place."""
    solo_turn_s: float = 5.0
    """How long an old offender waits when all those places are taken."""
    aside_max: int = 64
    """Records that failed as probes and step aside, so that the next probe is another one."""
    linger_s: float = 0.02
    """While something is in flight, how long the shipper lets records gather after a short batch."""
    idle_poll_s: float = 5.0
    """How often the store is asked although nobody called ``wake``."""
    drain_s_max: float = 20.0
    """How long a stop waits for answers; should be above the transport's time limit."""

    def __post_init__(self) -> None:
        limits = (self.batch_records_max, self.batch_bytes_max, self.in_flight_max, self.solo_in_flight_max)
        if min(limits) < 1:
            raise ValueError("the shipper's limits must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipperState:
    """For heartbeat and status. Counters are since the start of the process."""

    last_verdict: Verdict | None
    last_failure: str | None
    """What the last request met; None when it delivered something."""
    halted: bool
    halt_reason: str | None
    next_probe_at: datetime | None
    """None while the destination is open."""
    in_flight: int
    requests: int
    delivered: int
    dead: int
    delayed: int
    store_failing: bool


class Shipper:
    """Ships one store to one destination; one ``run`` at a time.

    A record is delivered twice only after a crash or when its answer was lost, and is never given up by a
    number of attempts. A failure of the code ends ``run``.
    """

    def __init__(
        self,
        store: Claiming,
        transport: Transport,
        clock: Clock,
        config: ShipperConfig,
        on_event: Callable[[ShipperEvent], None],
    ) -> None:
        self._clock = clock
        self._config = config
        self._leases = Leases(store, clock, on_event)
        self._to = Destination(transport=transport, leases=self._leases, clock=clock, on_event=on_event)
        self._wake = asyncio.Event()
        self._one_ended = asyncio.Event()
        self._batches: set[asyncio.Task[None]] = set()
        self._solos: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(config.in_flight_max)
        self._gathered_at: datetime | None = None
        """When a claim may follow a short one."""

    def wake(self) -> None:
        """Something was put: look at the store now."""
        self._wake.set()

    def state(self) -> ShipperState:
        gate, counters = self._to.gate, self._to.counters
        return ShipperState(
            last_verdict=self._to.last_verdict,
            last_failure=self._to.last_failure,
            halted=gate.is_halted,
            halt_reason=gate.halt_reason,
            next_probe_at=gate.next_probe_at,
            in_flight=len(self._batches) + len(self._solos),
            requests=counters.requests,
            delivered=counters.delivered,
            dead=counters.dead,
            delayed=counters.delayed,
            store_failing=self._leases.store_is_failing,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Ship until ``stop`` is set, then wait for the answers on their way, at most ``drain_s_max``."""
        try:
            async with asyncio.TaskGroup() as tasks:
                rounds = tasks.create_task(self._rounds(tasks, stop))
                rounds.add_done_callback(self._has_ended)
                await stop.wait()
                self._wake.set()
                await self._drain(rounds)
        finally:
            self._to.aside.clear()
            await self._leases.close()

    async def _rounds(self, tasks: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._wake.clear()
            look_at = await self._round(tasks)
            if look_at is not None:
                await self._clock.wait(self._wake, look_at)

    async def _drain(self, rounds: asyncio.Task[None]) -> None:
        """Also a round may still be waiting: for a store that is away."""
        until = self._clock.now() + timedelta(seconds=self._config.drain_s_max)
        in_time = True
        while in_time and (self._batches or self._solos or not rounds.done()):
            self._one_ended.clear()
            in_time = await self._clock.wait(self._one_ended, until)
        for task in [rounds, *self._batches, *self._solos]:
            task.cancel()

    def _has_ended(self, _task: asyncio.Task[None]) -> None:
        self._one_ended.set()
        self._wake.set()

    async def _round(self, tasks: asyncio.TaskGroup) -> datetime | None:
        """Start what may start. None: look again at once; else when to look again without a wake."""
        now = self._clock.now()
        if self._to.gate.is_open:
            return await self._open_round(tasks, now)
        return await self._shut_round(tasks, now)

    async def _open_round(self, tasks: asyncio.TaskGroup, now: datetime) -> datetime | None:
        config = self._config
        idle_until = now + timedelta(seconds=config.idle_poll_s)
        await self._to.step_back()
        if len(self._batches) >= config.in_flight_max:
            return idle_until
        if self._batches and self._gathered_at is not None and now < self._gathered_at:
            return self._gathered_at
        records = await self._leases.claim(
            now=now, limit=config.batch_records_max, bytes_max=config.batch_bytes_max
        )
        if not records:
            next_due = await self._leases.next_due()
            return idle_until if next_due is None else min(idle_until, max(next_due, now))
        is_short = len(records) < config.batch_records_max
        self._gathered_at = now + timedelta(seconds=config.linger_s) if is_short else None
        batches, solos = self._to.suspects.groups(records)
        room = max(0, config.solo_in_flight_max - len(self._solos))
        for record in solos[:room]:
            self._start(tasks, self._solos, ship(self._to, [record]))
        for batch in batches:
            self._start(tasks, self._batches, self._in_slot(batch))
        await self._postpone(solos[room:], now)
        return None

    async def _shut_round(self, tasks: asyncio.TaskGroup, now: datetime) -> datetime | None:
        gate = self._to.gate
        idle_until = now + timedelta(seconds=self._config.idle_poll_s)
        if not gate.may_probe(now):
            return idle_until if gate.probing else gate.next_probe_at
        if len(self._to.aside) >= self._config.aside_max:
            await self._to.step_back()
        records = await self._leases.claim(now=now, limit=1, bytes_max=0)
        if not records and self._to.aside:
            await self._to.step_back()
            records = await self._leases.claim(now=now, limit=1, bytes_max=0)
        if not records:
            return idle_until
        gate.probing = True
        self._start(tasks, self._batches, self._probe(records))
        return None

    async def _probe(self, records: Sequence[Record]) -> None:
        try:
            await ship(self._to, records, is_probe=True)
        finally:
            self._to.gate.probing = False

    async def _in_slot(self, batch: Sequence[Record]) -> None:
        async with self._slots:
            await ship(self._to, batch)

    def _start(
        self, tasks: asyncio.TaskGroup, kind: set[asyncio.Task[None]], work: Coroutine[None, None, None]
    ) -> None:
        task = tasks.create_task(work)
        kind.add(task)
        task.add_done_callback(kind.discard)
        task.add_done_callback(self._has_ended)

    async def _postpone(self, records: Sequence[Record], now: datetime) -> None:
        """Old offenders without a place now: their turn comes later, and no attempt is spent."""
        due_at = now + timedelta(seconds=self._config.solo_turn_s * (1 + self._clock.jitter()))
        postponed = [
            Settlement(
                rowid=record.rowid,
                lease=record.lease,
                verdict=Verdict.RETRY,
                now=now,
                due_at=due_at,
                reason="waits for a place of its own",
                spent=False,
            )
            for record in records
        ]
        await self._leases.settle(postponed)
