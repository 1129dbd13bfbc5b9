"""Two worker processes, one of which dies, hangs or comes back too late; and a server that crashes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import secrets
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import asyncpg
import pytest

from ingest.schema import upgrade
from outbox.clock import SystemClock
from outbox.postgres.config import QueueConfig
from outbox.postgres.enqueue import DueRecord
from outbox.postgres.store import PostgresStore
from outbox.record import Record
from outbox.store import StoreUnavailable
from outbox.verdict import Verdict
from tests.outbox.postgres import a_queue, open_queue
from tests.outbox.records import claim, ended, ids, seen
from tests.support.postgres import embedded_server
from tests.support.prepared import Prepared
from tests.support.queue_worker import LIMIT

DEADLINE_S: Final = 60.0
LEASE_S: Final = 1.5
KILLS_LONG: Final = 100
SHORT = QueueConfig(lease_s=LEASE_S, call_s_max=LEASE_S / 2)
NAMES = [f"r{n:02}" for n in range(LIMIT)]


@dataclass
class Worker:
    process: Prepared
    said: list[list[str]] = field(default_factory=list)

    async def until(self, word: str, times: int) -> None:
        """Return once it has said that word so often."""
        async with asyncio.timeout(DEADLINE_S):
            while sum(line[0] == word for line in self.said) < times:
                line = await self.process.stdout.readline()
                assert line, f"it ended: {self.said[-5:]}"
                self.said.append(line.decode().split())

    async def follow(self) -> None:
        """Hear all that it says until it ends."""
        async for line in self.process.stdout:
            self.said.append(line.decode().split())

    def ids(self, word: str) -> list[str]:
        return [line[1] for line in self.said if line[0] == word]

    def go_on(self) -> None:
        self.process.stdin.write(b"\n")


@asynccontextmanager
async def worker(dsn: str, queue: str, *, hold: bool = False) -> AsyncIterator[Worker]:
    """A worker process that is ready; killed at the end."""
    arguments = [dsn, queue, str(LEASE_S), *(["--hold"] if hold else [])]
    process = await Prepared.start("tests.support.queue_worker", arguments)
    try:
        started = Worker(process=process)
        await started.until("ready", 1)
        yield started
    finally:
        process.kill()
        await process.wait()
        process.close()


async def put(store: PostgresStore, *names: str) -> None:
    await store.put([DueRecord(id=name, body=name.encode()) for name in names])


def name(number: int) -> str:
    return f"{number:06}"


async def feed(store: PostgresStore, numbers: Iterator[int], enough: asyncio.Event) -> None:
    """Puts records as long as it takes: however fast the others work, they leave some."""
    while not enough.is_set():
        await put(store, *(name(next(numbers)) for _ in range(100)))
        await asyncio.sleep(0.01)


async def until_empty(store: PostgresStore) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while (await store.stats()).waiting:
            await asyncio.sleep(0.05)


async def test_what_a_killed_worker_held_is_taken_over_after_its_lease(engine_dsn: str) -> None:
    async with open_queue(engine_dsn) as store:
        await put(store, *NAMES)
        async with worker(engine_dsn, store.queue, hold=True) as dying:
            await dying.until("took", LIMIT)
            async with worker(engine_dsn, store.queue) as other:
                dying.process.kill()
                await other.until("sent", LIMIT)
                assert sorted(other.ids("lapsed")) == sorted(other.ids("sent")) == NAMES
                await until_empty(store)
        assert await seen(store) == LIMIT


async def test_a_worker_that_comes_back_too_late_sends_and_settles_nothing(engine_dsn: str) -> None:
    async with open_queue(engine_dsn) as store, worker(engine_dsn, store.queue, hold=True) as zombie:
        await put(store, *NAMES)
        await zombie.until("took", LIMIT)
        zombie.process.send_signal(signal.SIGSTOP)
        async with worker(engine_dsn, store.queue, hold=True) as other:
            await other.until("took", LIMIT)
            assert sorted(other.ids("lapsed")) == NAMES
            zombie.process.send_signal(signal.SIGCONT)
            zombie.go_on()
            await zombie.until("settled", 1)
            assert zombie.ids("sent") == []
            assert zombie.ids("settled") == ["0"]
            assert (await store.stats()).claimed == LIMIT, "the other one still has them all"
            other.go_on()
            await other.until("settled", 1)
            assert sorted(other.ids("sent")) == NAMES
            assert other.ids("settled") == [str(LIMIT)]


async def kill_often(dsn: str, kills: int) -> None:
    """Kill one of two workers again and again, wherever it is between claim and settle."""
    seed = secrets.randbelow(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    queue, sent = a_queue(), Counter[str]()
    numbers = itertools.count()
    async with open_queue(dsn, queue=queue) as store:
        async with worker(dsn, queue) as survivor:
            following = asyncio.create_task(survivor.follow())
            for _ in range(kills):
                async with worker(dsn, queue) as victim:
                    enough = asyncio.Event()
                    feeding = asyncio.create_task(feed(store, numbers, enough))
                    await victim.until("took", chance.randint(1, LIMIT))
                    enough.set()
                    await feeding
                    await asyncio.sleep(chance.uniform(0, 0.01))
                    victim.process.kill()
                    await victim.follow()
                sent.update(victim.ids("sent"))
            await until_empty(store)
            survivor.process.kill()
            await following
            sent.update(survivor.ids("sent"))
        put_before = next(numbers)
        assert await seen(store) == put_before
        assert set(sent) == {name(n) for n in range(put_before)}, f"seed {seed}: lost"
        twice = sum(times - 1 for times in sent.values())
        assert twice <= LIMIT * kills, f"seed {seed}: {twice} doubles"
        print(f"{put_before} records, {kills} kills, {twice} sent twice")


async def test_nothing_is_lost_when_workers_are_killed(engine_dsn: str) -> None:
    await kill_often(engine_dsn, 3)


@pytest.mark.chaos
async def test_nothing_is_lost_when_many_workers_are_killed(engine_dsn: str) -> None:
    await kill_often(engine_dsn, KILLS_LONG)


async def settled_in_spite(store: PostgresStore, records: list[Record]) -> None:
    clock = SystemClock()
    ends = [ended(record, Verdict.DELIVERED, clock.now()) for record in records]
    while True:
        try:
            await store.settle(ends)
        except StoreUnavailable:
            await asyncio.sleep(0.05)
            continue
        return


async def ship_in_spite(store: PostgresStore, sent: Counter[str]) -> None:
    """Work until nothing waits; every outage is waited for."""
    clock = SystemClock()
    while True:
        try:
            await store.sweep()
            records = await claim(store, clock, limit=LIMIT)
            if not records and not (await store.stats()).waiting:
                return
        except StoreUnavailable:
            await asyncio.sleep(0.05)
            continue
        sent.update(ids(records))
        await settled_in_spite(store, records)


@pytest.fixture
async def own_dsn() -> AsyncIterator[str]:
    """A server that may be crashed: never the one that DATABASE_URL names."""
    with embedded_server() as server:
        await upgrade(server.get_uri())
        yield server.get_uri()


async def test_a_server_that_crashes_in_the_middle_costs_nothing(own_dsn: str) -> None:
    """A backend killed with -9 takes all others with it: the server restarts from its log."""
    async with open_queue(own_dsn, config=SHORT) as store:
        names = [f"{n:04}" for n in range(2_000)]
        await put(store, *names)
        victim = await asyncpg.connect(own_dsn)
        backend = await victim.fetchval("SELECT pg_backend_pid()")
        sent: Counter[str] = Counter()
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(ship_in_spite(store, sent))
            while len(sent) < 500:
                await asyncio.sleep(0.001)
            os.kill(backend, signal.SIGKILL)
        with contextlib.suppress(Exception):
            await victim.close()
        assert set(sent) == set(names)
        assert await seen(store) == 2_000
        twice = sum(times - 1 for times in sent.values())
        assert twice <= 4 * LIMIT, "only what was on its way"
