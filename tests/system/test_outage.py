"""The database goes away under load: the collector accepts, the backend says 503, all heals by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from ingest.schema import upgrade
from tests.support.load import Driver, Post, until
from tests.system import posts
from tests.system.ledger import Ledger
from tests.system.test_kill import assert_kept, backends, living, shipping_to, waiting
from zaplake.embedded import EmbeddedPostgres

CLIENTS = 32
STEP = 300
"""Acknowledgements that show that a door works."""
STEP_S_MAX = 60.0
DRAIN_S_MAX = 120.0
DIRECT = 10**9
"""Numbers of the directly signed events start here, so that no mark is used twice."""


@pytest.fixture
def postgres() -> Iterator[EmbeddedPostgres]:
    """A server of this test's own, since it is taken away."""
    temporary = tempfile.TemporaryDirectory(prefix="zl", ignore_cleanup_errors=True)
    with temporary as folder, closing(EmbeddedPostgres(Path(folder))) as server:
        yield server


async def take_away(server: EmbeddedPostgres, how: signal.Signals) -> None:
    pid = int((server.pgdata / "postmaster.pid").read_text().split("\n", 1)[0])
    os.kill(pid, how)
    await until("Postgres is away", lambda: not psutil.pid_exists(pid), seconds_max=STEP_S_MAX)


async def acknowledged_more(driver: Driver) -> None:
    before = sum(driver.statuses[status] for status in (200, 201))
    await until(
        f"{STEP} more acknowledged",
        lambda: sum(driver.statuses[status] for status in (200, 201)) >= before + STEP,
        seconds_max=STEP_S_MAX,
    )


async def refused_more(driver: Driver) -> None:
    before = driver.statuses[503]
    await until("503", lambda: driver.statuses[503] >= before + CLIENTS, seconds_max=STEP_S_MAX)


@pytest.mark.timeout(300)
async def test_an_outage_of_the_database_loses_and_doubles_nothing(
    postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    await upgrade(postgres.dsn)
    pair = backends(postgres.dsn, tmp_path)

    def direct(number: int) -> Post:
        return posts.signed(DIRECT + number)

    collector = shipping_to(pair[0], tmp_path)
    ledger = Ledger()
    async with living([*pair, collector]):
        at_door = Driver(
            make=posts.webhook, ports=lambda: [collector.port], ledger=ledger, clients=CLIENTS, seed=1
        )
        at_backend = Driver(make=direct, ports=lambda: [pair[0].port], ledger=ledger, clients=CLIENTS, seed=2)
        async with asyncio.TaskGroup() as tasks:
            for driver in (at_door, at_backend):
                tasks.create_task(driver.run())
            for how in (signal.SIGINT, signal.SIGQUIT):
                await acknowledged_more(at_door)
                await acknowledged_more(at_backend)
                await take_away(postgres, how)
                await refused_more(at_backend)
                await acknowledged_more(at_door)
                assert await asyncio.to_thread(postgres.ensure_running)
            await acknowledged_more(at_backend)
            for driver in (at_door, at_backend):
                driver.stop.set()
        assert set(at_door.statuses) == {200}, "the collector's door does not need the database"
        assert set(at_backend.statuses) == {200, 201, 503}
        await until("the outbox is empty", lambda: waiting(collector.port) == 0, seconds_max=DRAIN_S_MAX)
    await assert_kept(postgres.dsn, ledger)
