"""The database goes away under load: the collector accepts, the backend says 503, all heals by itself."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ingest.schema import upgrade
from tests.support.load import Driver, Post, until
from tests.system import posts
from tests.system.conftest import Reckon
from tests.system.database import own_server, take_away
from tests.system.stage import CALM_S, STEP, STEP_S_MAX, playing
from zaplake.embedded import EmbeddedPostgres

CLIENTS = 32
DIRECT = 10**9
"""Numbers of the directly signed events start here, so that no mark is used twice."""
ROUNDS = [
    pytest.param([signal.SIGINT, signal.SIGQUIT], id="once each way"),
    pytest.param([signal.SIGQUIT] * 20, marks=pytest.mark.chaos, id="20 times immediate"),
]


@pytest.fixture
def postgres() -> Iterator[EmbeddedPostgres]:
    with own_server() as server:
        yield server


async def acknowledged_more(driver: Driver) -> None:
    before = driver.statuses[201]
    await until(f"{STEP} more got 201", lambda: driver.statuses[201] >= before + STEP, seconds_max=STEP_S_MAX)


async def refused_more(driver: Driver) -> None:
    before = driver.statuses[503]
    await until("503", lambda: driver.statuses[503] >= before + CLIENTS, seconds_max=STEP_S_MAX)


@pytest.mark.parametrize("stops", ROUNDS)
@pytest.mark.timeout(600)
async def test_an_outage_of_the_database_loses_and_doubles_nothing_and_rewrites_no_waiting_record(
    postgres: EmbeddedPostgres, tmp_path: Path, stops: Sequence[signal.Signals], seed: int, reckon: Reckon
) -> None:
    await upgrade(postgres.dsn)

    def direct(number: int) -> Post:
        return posts.signed(DIRECT + number)

    async with playing(postgres.dsn, tmp_path, seed=seed) as stage:
        at_backend = Driver(
            make=direct,
            ports=lambda: [stage.pair[0].port],
            ledger=stage.driver.ledger,
            clients=CLIENTS,
            seed=seed,
            pause_s=CALM_S,
        )
        driving = asyncio.create_task(at_backend.run())
        for how in stops:
            await acknowledged_more(at_backend)
            await stage.in_full_swing()
            await take_away(postgres, how)
            await refused_more(at_backend)
            await stage.gate_is_shut()
            await stage.acknowledged_more()
            stage.assert_untouched()
            assert await asyncio.to_thread(postgres.ensure_running)
            await stage.is_healed()
        await acknowledged_more(at_backend)
        at_backend.stop.set()
        await driving
    assert set(stage.driver.statuses) == {200}, "the collector's door does not need the database"
    assert set(at_backend.statuses) == {200, 201, 503}
    await reckon("database away", dsn=postgres.dsn, ledger=stage.driver.ledger, rounds=len(stops))
