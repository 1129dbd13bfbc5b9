"""A reader of the log skips nothing, whatever the order of commits; each way to break that is caught here."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from ingest.inbox.tables import _HORIZON
from tests.ingest.inbox.log import HORIZON, Reader, all_seq, write

LAST_VALUE = "SELECT last_value FROM lake.log_seq"


@contextlib.asynccontextmanager
async def connections(dsn: str, count: int) -> AsyncIterator[list[asyncpg.Connection[Any]]]:
    opened = [await asyncpg.connect(dsn) for _ in range(count)]
    try:
        yield opened
    finally:
        for connection in opened:
            await connection.close()


async def commit_out_of_order(dsn: str, horizon: str) -> tuple[list[int], list[int]]:
    """(read, written) when the first writer commits last, and the reader looks in between."""
    async with connections(dsn, 3) as (first, second, reading):
        reader = Reader(reading, horizon)
        slow = first.transaction()
        await slow.start()
        await write(first)
        await write(second)
        await reader.step()
        await slow.commit()
        while await reader.step():
            pass
        return reader.read, await all_seq(reading)


async def test_writers_that_commit_out_of_order_are_both_read(dsn: str) -> None:
    read, written = await commit_out_of_order(dsn, HORIZON)
    assert read == written == [1, 2]


async def test_a_reader_without_the_horizon_skips_one(dsn: str) -> None:
    read, written = await commit_out_of_order(dsn, LAST_VALUE)
    assert (read, written) == ([2], [1, 2])


@pytest.mark.parametrize("table", ["", "_past", "_future", "_month"])
async def test_the_log_and_each_of_its_parts_publish_what_they_write(dsn: str, table: str) -> None:
    async with connections(dsn, 2) as (writer, other):
        assert await other.fetchval(HORIZON) == 0
        times = {"_past": "'1999-01-01'", "_future": "'2199-01-01'"}
        part = table.replace("_month", "_" + await other.fetchval("SELECT to_char(now(), 'YYYY_MM')"))
        async with writer.transaction():
            await writer.execute(
                f"INSERT INTO lake.whatsapp_event_logs{part} (event_id, type, payload, shard, received_at) "
                f"VALUES (gen_random_uuid(), 't', '{{}}', 0, {times.get(table, 'now()')})"
            )
            await write(other)
            assert await other.fetchval(HORIZON) == 0
        assert await other.fetchval(HORIZON) == 2


async def test_a_rolled_back_writer_and_a_dead_one_leave_only_a_gap(dsn: str) -> None:
    async with connections(dsn, 2) as (writer, reading):
        await writer.execute("BEGIN")
        await write(writer)
        writer.terminate()
        reader = Reader(reading)
        await write(reading)
        async with asyncio.timeout(20):
            while not await reader.step():
                await asyncio.sleep(0.01)
        assert reader.read == [2]


async def test_other_transactions_do_not_hold_it_back(dsn: str, pg_server: Any) -> None:
    async with connections(dsn, 3) as (analyst, writer, reading):
        other = await asyncpg.connect(pg_server.dsn)
        try:
            async with analyst.transaction(isolation="repeatable_read"), other.transaction():
                await analyst.fetch("SELECT count(*) FROM lake.whatsapp_event_logs")
                await other.execute("CREATE TEMP TABLE busy ON COMMIT DROP AS SELECT 1 AS one")
                await other.execute("SELECT pg_advisory_xact_lock(7), pg_advisory_xact_lock_shared(1, 2)")
                await analyst.execute("SELECT pg_advisory_xact_lock(-9)")
                await write(writer)
                assert await reading.fetchval(HORIZON) == 1
        finally:
            await other.close()


async def test_an_older_snapshot_is_refused_because_it_would_skip(dsn: str) -> None:
    """One snapshot for horizon and rows: what commits in between lies below the horizon, unread."""
    careless = re.sub(r"IF current_setting.*?END IF;", "", _HORIZON, flags=re.DOTALL)
    async with connections(dsn, 2) as (writer, reading):
        await reading.execute(careless.replace("lake.horizon()", "lake.careless_horizon()"))
        reader = Reader(reading, "SELECT lake.careless_horizon()")
        async with reading.transaction(isolation="repeatable_read"):
            await reading.fetchval("SELECT count(*) FROM lake.whatsapp_event_logs")
            await write(writer)
            horizon = await reading.fetchval("SELECT lake.careless_horizon()")
            assert await reader.step() == []
            assert horizon == 1, "a reader that moves on to the horizon has skipped the row"
        with pytest.raises(asyncpg.PostgresError, match="READ COMMITTED"):
            async with reading.transaction(isolation="repeatable_read"):
                await reading.fetchval(HORIZON)


async def test_a_key_taken_after_the_number_is_too_late(dsn: str) -> None:
    """The broken writer draws its number, and publishes only then."""
    async with connections(dsn, 3) as (writer, other, reading):
        reader = Reader(reading)
        async with writer.transaction():
            number = await writer.fetchval("SELECT nextval('lake.log_seq')")
            await write(other)
            await reader.step()
            await writer.execute(
                "INSERT INTO lake.whatsapp_event_logs (event_id, type, payload, shard, seq) "
                "VALUES (gen_random_uuid(), 't', '{}', 0, $1)",
                number,
            )
        await reader.step()
        assert (reader.read, await all_seq(reading)) == ([2], [1, 2])


async def test_locks_read_before_the_last_number_are_too_old(dsn: str) -> None:
    """The broken horizon looks at the locks first; a pause in between lets a writer pass."""
    given = re.search(r"given := .*?;", _HORIZON)
    assert given is not None
    backwards = _HORIZON.replace(given[0], "").replace(
        "RETURN least", f"PERFORM pg_advisory_xact_lock(77); {given[0]} RETURN least"
    )
    async with connections(dsn, 4) as (slow, quick, pause, reading):
        await reading.execute(backwards.replace("lake.horizon()", "lake.backwards()"))
        await pause.execute("SELECT pg_advisory_lock(77)")
        reader = Reader(reading, "SELECT lake.backwards()")
        step = asyncio.create_task(reader.step())
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted"
        async with asyncio.timeout(20):
            while not await pause.fetchval(waiting):
                await asyncio.sleep(0.01)
        async with slow.transaction():
            await write(slow)
            await write(quick)
            await pause.execute("SELECT pg_advisory_unlock(77)")
            await step
        await reader.step()
        assert (reader.read, await all_seq(reading)) == ([2], [1, 2])


async def test_the_sequence_gives_one_number_at_a_time(dsn: str) -> None:
    """Numbers that a session had in its pocket would appear below the horizon."""
    async with connections(dsn, 3) as (hoarder, other, reading):
        assert (
            await reading.fetchval("SELECT cache_size FROM pg_sequences WHERE sequencename = 'log_seq'") == 1
        )
        await reading.execute("ALTER SEQUENCE lake.log_seq CACHE 20")
        reader = Reader(reading)
        await write(hoarder)
        await write(other)
        await reader.step()
        await write(hoarder)
        await reader.step()
        assert 2 not in reader.read, "the checker sees what a cache would lose"
        assert await all_seq(reading) == [1, 2, 21]


async def hammer(dsn: str, horizon: str, *, seconds: float, seed: int) -> tuple[list[int], list[int]]:
    """(read, written) by 8 writers that commit after a random pause, and one reader at once."""
    chance = random.Random(seed)
    pauses = [[chance.random() * 0.01 for _ in range(1000)] for _ in range(8)]
    async with connections(dsn, 9) as (reading, *writers):
        reader, ends = Reader(reading, horizon), asyncio.get_running_loop().time() + seconds

        async def writing(connection: asyncpg.Connection[Any], waits: list[float]) -> None:
            for turn, wait in enumerate(itertools.cycle(waits)):
                if asyncio.get_running_loop().time() > ends:
                    return
                async with connection.transaction():
                    await write(connection, *["{}"] * (1 + turn % 3))
                    await asyncio.sleep(wait)
                    await write(connection)

        work = asyncio.gather(*map(writing, writers, pauses))
        while not work.done():
            await reader.step()
            await asyncio.sleep(0)
        await work
        while await reader.step():
            pass
        return reader.read, await all_seq(reading)


@pytest.mark.parametrize(
    "seconds", [1.0, pytest.param(float(os.environ.get("ZAPLAKE_GAP_S", "60")), marks=pytest.mark.chaos)]
)
async def test_nothing_is_skipped_and_nothing_read_twice_among_many_writers(dsn: str, seconds: float) -> None:
    seed = random.getrandbits(32)
    read, written = await hammer(dsn, HORIZON, seconds=seconds, seed=seed)
    assert read == written, f"seed {seed}"
    assert len(written) > 100


async def test_many_writers_catch_a_reader_without_the_horizon(dsn: str) -> None:
    read, written = await hammer(dsn, LAST_VALUE, seconds=0.5, seed=1)
    assert set(read) < set(written)
