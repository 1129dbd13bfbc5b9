"""An analyst's open transaction keeps vacuum off: claims get slower, nothing is lost or doubled; it heals."""

from __future__ import annotations

import time

import asyncpg
import pytest

from outbox.clock import SystemClock
from outbox.postgres.enqueue import DueRecord
from outbox.postgres.store import PostgresStore
from outbox.verdict import Verdict
from tests.outbox.postgres import open_queue
from tests.outbox.records import claim, ended, ids

CLAIM = 100


async def work_off(store: PostgresStore, records: int) -> tuple[list[str], float]:
    """Enqueue, claim, settle; returns what was claimed, and how many ms a claim of 100 took at the end."""
    clock = SystemClock()
    taken: list[str] = []
    took_ms: list[float] = []
    number = 0
    while len(taken) < records:
        number += 1
        await store.put([DueRecord(id=f"{records}.{number}.{n}", body=b"x" * 400) for n in range(CLAIM)])
        started = time.perf_counter()
        claimed = await claim(store, clock, limit=CLAIM)
        took_ms.append((time.perf_counter() - started) * 1e3)
        taken += ids(claimed)
        await store.settle([ended(record, Verdict.DELIVERED, clock.now()) for record in claimed])
    last = sorted(took_ms[-10:])
    return taken, last[len(last) // 2]


async def under_a_snapshot(dsn: str, steps: list[int]) -> None:
    async with open_queue(dsn) as store:
        taken, fresh_ms = await work_off(store, 2_000)
        assert len(taken) == len(set(taken))
        print(f"a claim of {CLAIM}: {fresh_ms:.1f} ms")
        analyst = await asyncpg.connect(dsn)
        async with analyst.transaction(isolation="repeatable_read"):
            await analyst.fetch("SELECT count(*) FROM engine.records")
            settled = 0
            for step in steps:
                taken, slow_ms = await work_off(store, step - settled)
                settled += len(taken)
                assert len(taken) == len(set(taken))
                print(f"a claim of {CLAIM}: {slow_ms:.1f} ms after {settled} settled under an open snapshot")
            assert (await store.stats()).waiting == 0
        await analyst.execute("VACUUM engine.records")
        _, healed_ms = await work_off(store, 2_001)
        print(f"a claim of {CLAIM}: {healed_ms:.1f} ms when it was over and vacuumed")
        assert (await store.stats()).waiting == 0
        await analyst.close()


async def test_nothing_is_lost_or_doubled_under_an_open_snapshot(dsn: str) -> None:
    await under_a_snapshot(dsn, [2_000])


@pytest.mark.chaos
async def test_what_an_open_snapshot_costs(dsn: str) -> None:
    await under_a_snapshot(dsn, [5_000, 10_000, 20_000, 40_000])
