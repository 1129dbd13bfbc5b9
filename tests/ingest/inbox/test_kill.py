"""Exactly once, under SIGKILL and SIGSTOP between effect and commit; the effect is a plain counter."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psutil
import pytest

from tests.ingest.inbox.log import write
from tests.ingest.inbox.running import DEADLINE_S, DOUBLES, HOW_MANY, RAN, consumer, counting, running, until
from tests.support.prepared import Prepared

KILLS = 100
EVENTS = 100
"""Written in each round, in a few shards."""


@contextlib.asynccontextmanager
async def worker(dsn: str, *flags: str) -> AsyncIterator[Prepared]:
    """A process that runs the counting rule; killed at the end when it still lives."""
    process = await Prepared.start("tests.support.working", ["--dsn", dsn, *flags])
    try:
        async with asyncio.timeout(DEADLINE_S):
            assert await process.stdout.readline() == b"working\n"
        yield process
    finally:
        process.kill()
        await process.wait()
        process.close()


async def has_stopped(process: Prepared) -> None:
    """Waits until it is dead or stands still."""
    async with asyncio.timeout(DEADLINE_S):
        while process.returncode is None and not stands_still(process.pid):
            await asyncio.sleep(0.01)


def stands_still(pid: int) -> bool:
    try:
        status: str = psutil.Process(pid).status()
    except psutil.NoSuchProcess:  # it just died; the loop will hear of it
        return False
    return status == "stopped"


async def one_round(
    dsn: str, connection: asyncpg.Connection[Any], asked: signal.Signals, before: int, *flags: str
) -> None:
    """A worker dies or stops in the middle of a batch; another ends the work; the stopped one wakes up."""
    async with worker(dsn, *flags) as process:
        process.send_signal(asked)
        for shard in range(4):
            await write(connection, *["{}"] * (EVENTS // 4), shard=shard)
        await has_stopped(process)
        processed = "SELECT count(*) FROM lake.inbox WHERE state = 'PROCESSED'"
        async with running(dsn, consumer(counting())):
            await until(connection, processed, before + EVENTS)
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                await write(connection, *["{}"] * EVENTS, shard=5)
                await until(connection, processed, before + 2 * EVENTS)


async def rounds(dsn: str, count: int, *flags: str) -> tuple[int, int, int]:
    """(events, effects, doubles) after so many rounds; every third worker is stopped, the others die."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(RAN)
    for turn in range(count):
        asked = signal.SIGUSR2 if turn % 3 == 1 else signal.SIGUSR1
        events = await connection.fetchval("SELECT count(*) FROM lake.whatsapp_event_logs")
        await one_round(dsn, connection, asked, events, *flags)
    events = await connection.fetchval("SELECT count(*) FROM lake.whatsapp_event_logs")
    effects, doubles = await connection.fetchval(HOW_MANY), await connection.fetchval(DOUBLES)
    await connection.close()
    return events, effects, doubles


async def test_a_worker_that_dies_or_stands_still_doubles_and_loses_nothing(dsn: str) -> None:
    events, effects, doubles = await rounds(dsn, 2)
    assert (effects, doubles) == (events, 0)


@pytest.mark.chaos
async def test_nor_do_a_hundred(dsn: str) -> None:
    events, effects, doubles = await rounds(dsn, KILLS)
    print(f"{KILLS} workers killed or stopped: {events} events, {effects} effects, {doubles} doubles")
    assert (effects, doubles) == (events, 0)


async def test_effects_that_commit_apart_from_the_cursor_are_seen_as_doubles(dsn: str) -> None:
    events, effects, doubles = await rounds(dsn, 1, "--apart")
    assert doubles > 0
    assert effects == events + doubles


async def test_another_worker_takes_over_at_once(dsn: str) -> None:
    """The row lock dies with its connection: nobody waits for a lease to run out."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(RAN)
    loop = asyncio.get_running_loop()
    async with worker(dsn) as process:
        process.send_signal(signal.SIGUSR1)
        await write(connection, *["{}"] * EVENTS, shard=random.randrange(64))
        await has_stopped(process)
        died_at = loop.time()
        async with running(dsn, consumer(counting())):
            await until(connection, HOW_MANY, EVENTS)
            print(f"takeover after SIGKILL: {loop.time() - died_at:.3f} s")
    assert await connection.fetchval(DOUBLES) == 0
    await connection.close()
