"""SIGSTOP to the collector, the backends or the database for longer than anybody waits, then SIGCONT."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from ingest.schema import upgrade
from tests.system.conftest import Reckon
from tests.system.database import frozen, own_server
from tests.system.stage import REQUEST_TIMEOUT_S, Stage, playing
from tests.system.victims import Victim
from zaplake.embedded import EmbeddedPostgres


@pytest.fixture
def postgres() -> Iterator[EmbeddedPostgres]:
    with own_server() as server:
        yield server


@contextlib.contextmanager
def standing_still(victims: Sequence[Victim]) -> Iterator[None]:
    try:
        for victim in victims:
            victim.freeze()
        yield
    finally:
        for victim in victims:
            victim.thaw()


@contextlib.asynccontextmanager
async def collector_stands_still(stage: Stage, _postgres: EmbeddedPostgres) -> AsyncIterator[None]:
    """Answers to what it shipped arrive, and it learns of them when their time is over."""
    with standing_still([stage.collector]):
        await asyncio.sleep(0.5 * REQUEST_TIMEOUT_S)  # meanwhile the last answers are read
        assert stage.driver.in_flight == stage.driver.clients, "not everybody waits"
        acknowledged = len(stage.driver.ledger.acknowledged)
        await asyncio.sleep(REQUEST_TIMEOUT_S)  # so long is the disaster
        assert len(stage.driver.ledger.acknowledged) == acknowledged, "somebody was answered"
        yield


@contextlib.asynccontextmanager
async def backends_stand_still(stage: Stage, _postgres: EmbeddedPostgres) -> AsyncIterator[None]:
    """What was shipped to them is committed after the collector has given it up and sent it again."""
    with standing_still(stage.pair):
        await stage.gate_is_shut()
        await stage.acknowledged_more()
        stage.assert_untouched()
        yield


@contextlib.asynccontextmanager
async def database_stands_still(stage: Stage, postgres: EmbeddedPostgres) -> AsyncIterator[None]:
    """A commit that was given up may still happen."""
    with frozen(postgres):
        await stage.gate_is_shut()
        await stage.acknowledged_more()
        stage.assert_untouched()
        yield


WAYS: list[Callable[[Stage, EmbeddedPostgres], AbstractAsyncContextManager[None]]] = [
    collector_stands_still,
    backends_stand_still,
    database_stands_still,
]


@pytest.mark.parametrize("rounds", [1, pytest.param(9, marks=pytest.mark.chaos)])
@pytest.mark.timeout(600)
async def test_who_stood_still_and_goes_on_loses_and_doubles_nothing(
    postgres: EmbeddedPostgres, tmp_path: Path, rounds: int, seed: int, reckon: Reckon
) -> None:
    """The short form freezes the backends, the long one each of the three in an order by chance."""
    await upgrade(postgres.dsn)
    ways = [backends_stand_still] if rounds == 1 else WAYS * (rounds // len(WAYS))
    random.Random(seed).shuffle(ways)
    async with playing(postgres.dsn, tmp_path, seed=seed) as stage:
        for way in ways:
            await stage.in_full_swing()
            async with way(stage, postgres):
                pass
            await stage.acknowledged_more()
            await stage.is_healed()
    await reckon("stopped and continued", dsn=postgres.dsn, ledger=stage.driver.ledger, rounds=rounds)
