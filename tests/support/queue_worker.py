"""A process that works on one Postgres queue and says what it does, until somebody stops or kills it.

``python -m tests.support.queue_worker DSN QUEUE LEASE_S [--hold]``: one line an action. ``took ID`` after a
claim, ``sent ID`` for what it may still send, then ``settled COUNT``. With ``--hold`` it waits for a line
between the claim and the rest.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from outbox.clock import SystemClock
from outbox.postgres.config import PoolConfig, QueueConfig
from outbox.postgres.pool import open_pool
from outbox.postgres.store import PostgresStore
from outbox.postgres.upkeep import Upkeep
from outbox.record import Record
from outbox.store import Settlement
from outbox.verdict import Verdict

LIMIT: Final = 10
IDLE_S: Final = 0.02


def say(*words: object) -> None:
    """One write each: what was said is out when the process dies."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def work(store: PostgresStore, *, hold: bool) -> None:
    clock = SystemClock()
    while True:
        records = await store.claim(now=clock.now(), limit=LIMIT, bytes_max=10**7)
        if not records:
            await asyncio.sleep(IDLE_S)
            continue
        for record in records:
            say("took", record.id)
        if hold:
            await asyncio.to_thread(sys.stdin.readline)
        held = [record for record in records if store.still_held(record)]
        for record in held:
            say("sent", record.id)
        say("settled", await store.settle([_delivered(record, clock) for record in records]))


def _delivered(record: Record, clock: SystemClock) -> Settlement:
    return Settlement(rowid=record.rowid, lease=record.lease, verdict=Verdict.DELIVERED, now=clock.now())


async def work_on(dsn: str, queue: str, lease_s: float, *, hold: bool) -> None:
    config = QueueConfig(lease_s=lease_s, call_s_max=lease_s / 2)
    clock = SystemClock()
    async with open_pool(PoolConfig(dsn=dsn)) as connections, asyncio.TaskGroup() as tasks:
        store = PostgresStore(connections, queue=queue, clock=clock, config=config)
        upkeep = Upkeep(
            store,
            clock,
            on_lapsed=lambda lapsed: say("lapsed", lapsed.id),
            on_failure=lambda reason: say("failure", reason),
        )
        tasks.create_task(upkeep.run(asyncio.Event()))
        say("ready", os.getpid())
        tasks.create_task(work(store, hold=hold))


def main() -> None:
    dsn, queue, lease_s, *flags = sys.argv[1:]
    asyncio.run(work_on(dsn, queue, float(lease_s), hold="--hold" in flags))


if __name__ == "__main__":
    main()
