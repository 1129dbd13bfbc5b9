"""kill -9 of the collector or a backend at any moment: what was acknowledged is in the lake once, intact.

The short form kills a few times in ways that the seed draws, `make chaos` ZAPLAKE_KILLS times in all ways,
half of them at each door; ZAPLAKE_SEED repeats a run.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.load import Driver, Post, until
from tests.system import posts
from tests.system.conftest import Reckon
from tests.system.ledger import Ledger
from tests.system.stage import CLIENTS, DRAIN_S_MAX, backends, in_full_swing, living, shipping_to, waiting
from tests.system.victims import Death, Victim

LONG = pytest.param(int(os.environ.get("ZAPLAKE_KILLS", "200")) // 2, marks=pytest.mark.chaos)


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


@pytest.mark.parametrize("kills", [4, LONG])
@pytest.mark.timeout(900)
async def test_a_signed_event_that_got_201_survives_kills(
    dsn: str, tmp_path: Path, kills: int, seed: int, reckon: Reckon
) -> None:
    pair = backends(dsn, tmp_path)
    async with living(pair):
        ledger = await storm(pair, lambda: [pair[0].port], posts.signed, kills=kills, seed=seed)
    await reckon("kill -9, backends", dsn=dsn, ledger=ledger, rounds=kills)


@pytest.mark.parametrize("kills", [5, LONG])
@pytest.mark.timeout(900)
async def test_a_webhook_that_got_200_reaches_the_lake_through_kills(
    dsn: str, tmp_path: Path, kills: int, seed: int, reckon: Reckon
) -> None:
    pair = backends(dsn, tmp_path)
    collector = shipping_to(pair[0], tmp_path)
    async with living([*pair, collector]):
        victims = [collector, *pair]
        ledger = await storm(victims, lambda: [collector.port], posts.webhook, kills=kills, seed=seed)
        await until(
            "the outbox is empty",
            lambda: waiting(collector.port) == 0,
            seconds_max=DRAIN_S_MAX,
        )
    await reckon("kill -9, collector and backends", dsn=dsn, ledger=ledger, rounds=kills)
