"""kill -9 of the collector or a backend at any moment: what was acknowledged is in the lake once, intact.

The short form kills each process in each way, `make chaos` ZAPLAKE_KILLS times; ZAPLAKE_SEED repeats a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import asyncpg
import pytest

from tests.support.load import Driver, Post, until
from tests.system import posts
from tests.system.ledger import Ledger, check
from tests.system.victims import Death, Victim

IN_FLIGHT_MIN = 64
CLIENTS = 96
IN_FLIGHT_S_MAX = 30.0
DRAIN_S_MAX = 120.0

LONG = pytest.param(int(os.environ.get("ZAPLAKE_KILLS", "100")), marks=pytest.mark.chaos)


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("ZAPLAKE_SEED", random.SystemRandom().randrange(10**6)))


@contextlib.asynccontextmanager
async def living(victims: Sequence[Victim]) -> AsyncIterator[None]:
    try:
        for victim in victims:
            await victim.start()
        yield
    finally:
        for victim in reversed(victims):
            await victim.stop()


def backends(dsn: str, folder: Path) -> list[Victim]:
    """Two serve processes on one port; the port stays taken as long as one of them lives."""
    first = Victim("serve-1", lambda port: _serve(dsn, port), folder / "serve-1.log")
    second = Victim("serve-2", lambda port: _serve(dsn, port or first.port), folder / "serve-2.log")
    return [first, second]


def shipping_to(backend: Victim, folder: Path) -> Victim:
    """A collector; each of its lives ships to where ``backend`` listens then."""

    def arguments(_port: int) -> list[str]:
        url = f"http://127.0.0.1:{backend.port}"
        return ["collector", "--folder", str(folder / "outbox"), "--backend-url", url]

    return Victim("collector", arguments, folder / "collector.log")


def _serve(dsn: str, port: int) -> list[str]:
    return ["ingest", "--dsn", dsn, "--port", str(port)]


async def storm(
    victims: Sequence[Victim],
    ports: Callable[[], Sequence[int]],
    make: Callable[[int], Post],
    *,
    kills: int,
    seed: int,
) -> Ledger:
    """Drive and kill; returns what was acknowledged."""
    print(f"ZAPLAKE_SEED={seed}")
    chance = random.Random(seed)
    ways = list(itertools.product(victims, Death))
    chance.shuffle(ways)
    ledger = Ledger()
    driver = Driver(make=make, ports=ports, ledger=ledger, clients=CLIENTS, seed=seed)
    driving = asyncio.create_task(driver.run())
    reached = 0
    try:
        for victim, death in itertools.islice(itertools.cycle(ways), kills):
            await in_full_swing(driver, driving)
            reached += await victim.die(death, chance) and death is not Death.ANY_MOMENT
            await victim.start()
    finally:
        driver.stop.set()
        await driving
    print(f"{kills} kills, {reached} at a fault point; answers {dict(driver.statuses)}")
    assert reached > 0, "no fault point was reached"
    assert set(driver.statuses) <= {0, 200, 201, 503}
    return ledger


async def in_full_swing(driver: Driver, driving: asyncio.Task[None]) -> None:
    """Returns when enough requests are in flight and something new was acknowledged."""
    before = len(driver.ledger.acknowledged)

    def swinging() -> bool:
        assert not driving.done(), "the driver ended"
        return driver.in_flight >= IN_FLIGHT_MIN and len(driver.ledger.acknowledged) > before

    await until(f"{IN_FLIGHT_MIN} requests in flight", swinging, seconds_max=IN_FLIGHT_S_MAX)


async def assert_kept(dsn: str, ledger: Ledger) -> None:
    """Every acknowledged event is in the lake exactly once and intact, every other at most once."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT payload::text FROM lake.whatsapp_event_logs")
        ids = await connection.fetchval("SELECT count(*) FROM lake.event_ids")
    finally:
        await connection.close()
    payloads = [json.loads(row[0]) for row in rows]
    assert check(ledger, ((posts.mark_of(payload), payload) for payload in payloads)) == []
    assert ids == len(rows), "an id without its event"
    print(f"{len(ledger.sent)} sent, {len(ledger.acknowledged)} acknowledged, {len(rows)} in the lake")


def waiting(port: int) -> int:
    """Records in the collector's outbox."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=10) as answer:
        return int(json.load(answer)["outbox"]["waiting"])


@pytest.mark.parametrize("kills", [6, LONG])
@pytest.mark.timeout(900)
async def test_a_signed_event_that_got_201_survives_kills(
    dsn: str, tmp_path: Path, kills: int, seed: int
) -> None:
    pair = backends(dsn, tmp_path)
    async with living(pair):
        ledger = await storm(pair, lambda: [pair[0].port], posts.signed, kills=kills, seed=seed)
    await assert_kept(dsn, ledger)


@pytest.mark.parametrize("kills", [10, LONG])
@pytest.mark.timeout(900)
async def test_a_webhook_that_got_200_reaches_the_lake_through_kills(
    dsn: str, tmp_path: Path, kills: int, seed: int
) -> None:
    pair = backends(dsn, tmp_path)
    collector = shipping_to(pair[0], tmp_path)
    async with living([*pair, collector]):
        victims = [collector, *pair]
        ledger = await storm(victims, lambda: [collector.port], posts.webhook, kills=kills, seed=seed)
        await until("the outbox is empty", lambda: waiting(collector.port) == 0, seconds_max=DRAIN_S_MAX)
    await assert_kept(dsn, ledger)
