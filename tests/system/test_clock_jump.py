"""The collector's clock jumps an hour while events wait for a backend that is away: nothing is parked by it.

The backend keeps no time of its own: it takes Postgres'.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.orders import CLOCK
from tests.system.conftest import Reckon
from tests.system.stage import Stage, playing
from tests.system.victims import Death

HOUR_S = 3_600.0
SKEWED = "clock.skew"


async def jump(stage: Stage, ahead_s: float, *, restart: bool, chance: random.Random) -> None:
    """Off before the outage, right again in it: by itself, or because the collector starts again."""
    await stage.collector.obey(CLOCK, ahead_s)
    await stage.has_alert(SKEWED)
    await stage.in_full_swing()
    for backend in stage.pair:
        await backend.die(Death.ANY_MOMENT, chance)
    await stage.gate_is_shut()
    await stage.acknowledged_more()
    waited = stage.assert_untouched()
    if restart:
        await stage.collector.die(Death.ANY_MOMENT, chance)
    else:
        await stage.collector.obey(CLOCK, 0)
        await stage.acknowledged_more()
    for backend in stage.pair:
        await backend.start()
    if restart:
        await stage.collector.start()
    await stage.acknowledged_more()
    await stage.shipped_of(waited)
    await stage.is_healed()
    await stage.alert_is_over(SKEWED)


@pytest.mark.parametrize("rounds", [1, pytest.param(4, marks=pytest.mark.chaos)])
@pytest.mark.timeout(600)
async def test_a_clock_that_jumps_an_hour_parks_loses_and_doubles_nothing(
    dsn: str, tmp_path: Path, rounds: int, seed: int, reckon: Reckon
) -> None:
    """Ahead and behind, each with and without a restart; the short form is ahead, then restarted."""
    chance = random.Random(seed)
    jumps = [(HOUR_S, True), (-HOUR_S, False), (HOUR_S, False), (-HOUR_S, True)]
    async with playing(dsn, tmp_path, seed=seed) as stage:
        for number in range(rounds):
            ahead_s, restart = jumps[number % len(jumps)]
            await jump(stage, ahead_s, restart=restart, chance=chance)
    await reckon("clock off by an hour", dsn=dsn, ledger=stage.driver.ledger, rounds=rounds)
