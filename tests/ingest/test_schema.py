"""The schema: migrations equal the metadata, months stand ready, and the hot statements have good plans."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateSchema

from ingest import statements, tables
from ingest.columns import columns_of
from ingest.partitions import MONTHS_AHEAD, make_ahead
from ingest.reading import read_event
from ingest.row import Row
from ingest.schema import upgrade
from tests.ingest.backend import an_id, event
from tests.support.postgres import PgServer, database_name, schema_dump

ROOT = Path(__file__).parents[2]


async def test_migrations_and_metadata_make_the_same_database(pg_server: PgServer) -> None:
    migrated, made = database_name(), database_name()
    for name in (migrated, made):
        await pg_server.run(f"CREATE DATABASE {name}")
    try:
        await upgrade(pg_server.dsn_of(migrated))
        await from_metadata(pg_server.dsn_of(made))
        connection = await asyncpg.connect(pg_server.dsn_of(migrated))
        await connection.execute("DROP TABLE lake.schema_version")
        await connection.close()
        expected = schema_dump(pg_server.dsn_of(migrated), "lake")
        assert len([line for line in expected if line.startswith("CREATE TABLE")]) > 10
        assert schema_dump(pg_server.dsn_of(made), "lake") == expected
    finally:
        for name in (migrated, made):
            await pg_server.run(f"DROP DATABASE {name} WITH (FORCE)")


async def from_metadata(dsn: str) -> None:
    async def connect() -> asyncpg.Connection[Any]:
        return await asyncpg.connect(dsn)

    def create(connection: Connection) -> None:
        connection.execute(CreateSchema("lake"))
        tables.metadata.create_all(connection)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(create)
    await engine.dispose()
    direct = await asyncpg.connect(dsn)
    await make_ahead(direct)
    await direct.close()


async def test_several_processes_may_upgrade_at_once(pg_server: PgServer) -> None:
    name = database_name()
    await pg_server.run(f"CREATE DATABASE {name}")
    try:
        program = "import asyncio, sys; from ingest.schema import upgrade; asyncio.run(upgrade(sys.argv[1]))"
        command = [sys.executable, "-c", program, pg_server.dsn_of(name)]
        processes = [await asyncio.create_subprocess_exec(*command, cwd=ROOT) for _ in range(3)]
        assert [await process.wait() for process in processes] == [0, 0, 0]
    finally:
        await pg_server.run(f"DROP DATABASE {name} WITH (FORCE)")


INSERT = """
    INSERT INTO lake.whatsapp_event_logs (event_id, type, payload, shard, received_at)
    VALUES ($1, 't', '{}', 0, $2)
"""
WHERE_IS = "SELECT tableoid::regclass::text FROM lake.whatsapp_event_logs WHERE event_id = $1"


async def test_an_insert_never_fails_for_its_time_and_months_take_their_rows(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    places = {}
    for year in (1970, 2026, 2099):
        event_id = an_id()
        await connection.execute(INSERT, event_id, datetime(year, 12, 31, 23, 59, tzinfo=UTC))
        places[year] = await connection.fetchval(WHERE_IS, event_id)
    assert places[1970] == "lake.whatsapp_event_logs_past"
    assert places[2099] == "lake.whatsapp_event_logs_future"

    late = an_id()
    now = await connection.fetchval("SELECT date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'")
    ahead = await connection.fetchval(
        "SELECT $1::timestamptz + make_interval(months => $2)", now, MONTHS_AHEAD + 2
    )
    await connection.execute(INSERT, late, ahead)
    assert await connection.fetchval(WHERE_IS, late) == "lake.whatsapp_event_logs_future"
    made = await make_ahead(connection, now=ahead)
    assert len(made) == MONTHS_AHEAD + 2
    assert await connection.fetchval(WHERE_IS, late) == f"lake.whatsapp_event_logs_{ahead:%Y_%m}"
    assert await make_ahead(connection, now=ahead) == []
    await connection.close()


async def test_there_is_no_default_partition_and_every_month_has_its_brin(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    bounds = await connection.fetch("""
        SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) AS bounds,
               (SELECT count(*) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
                  JOIN pg_am a ON a.oid = i.relam WHERE x.indrelid = c.oid AND a.amname = 'brin') AS brin
          FROM pg_inherits p JOIN pg_class c ON c.oid = p.inhrelid
         WHERE p.inhparent = 'lake.whatsapp_event_logs'::regclass
    """)
    assert len(bounds) == 2 + 1 + MONTHS_AHEAD
    assert all("DEFAULT" not in row["bounds"] and row["brin"] == 1 for row in bounds)
    await connection.close()


async def test_a_month_can_be_detached_concurrently(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    month = await connection.fetchval("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')")
    await connection.execute(
        f"ALTER TABLE lake.whatsapp_event_logs DETACH PARTITION lake.whatsapp_event_logs_{month} CONCURRENTLY"
    )
    await connection.close()


async def test_busy_tables_postpone_a_month_and_stop_nobody(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.partitions.LOCK_S_MAX", 0.1)
    analyst, maker = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    async with analyst.transaction():
        await analyst.fetch("SELECT 1 FROM lake.whatsapp_event_logs")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await make_ahead(maker, now=datetime(2099, 1, 1, tzinfo=UTC))
        monkeypatch.setattr("ingest.partitions.MONTHS_AHEAD", MONTHS_AHEAD + 1)
        await upgrade(dsn)
    assert len(await make_ahead(maker)) == 1
    await analyst.close()
    await maker.close()


@pytest.mark.parametrize("kept", [["past", "future"], ["month", "future"]], ids="-".join)
async def test_what_was_detached_is_not_made_again(dsn: str, kept: list[str]) -> None:
    connection = await asyncpg.connect(dsn)
    month = await connection.fetchval("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')")
    partitions = await connection.fetch("""
        SELECT inhrelid::regclass::text AS name FROM pg_inherits
         WHERE inhparent = 'lake.whatsapp_event_logs'::regclass
    """)
    ends = tuple(month if name == "month" else name for name in kept)
    for name in (row["name"] for row in partitions):
        if not name.endswith(ends):
            await connection.execute(f"ALTER TABLE lake.whatsapp_event_logs DETACH PARTITION {name}")
    assert await make_ahead(connection) == []
    await connection.close()


async def explain(dsn: str, statement: str, *arguments: object) -> str:
    """The plan that a prepared statement has from its sixth execution on."""
    connection = await asyncpg.connect(dsn, server_settings={"plan_cache_mode": "force_generic_plan"})
    try:
        rows = await connection.fetch(f"EXPLAIN {statement}", *arguments)
        return "\n".join(row[0] for row in rows)
    finally:
        await connection.close()


async def fill(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("""
        INSERT INTO lake.event_ids (event_id, digest)
        SELECT gen_random_uuid(), decode(md5(n::text), 'hex') FROM generate_series(1, 50000) n;
        ANALYZE lake.event_ids
    """)
    await connection.close()


async def test_the_insert_joins_by_hash_and_reads_no_table(dsn: str) -> None:
    await fill(dsn)
    rows = [read_event(event(), event_id=an_id(), collector=None) for _ in range(3)]
    columns = columns_of(rows)
    place = Row._fields.index("payload")
    columns[place] = [str(payload, "utf-8") for payload in columns[place]]
    plan = await explain(dsn, statements.INSERT_EVENTS, *columns)
    assert "Seq Scan" not in plan
    assert "Nested Loop" not in plan
    assert "event_ids_pkey" in plan


async def test_conflicts_are_found_by_the_primary_key(dsn: str) -> None:
    await fill(dsn)
    plan = await explain(dsn, statements.COUNT_COPIES, [an_id()], [b"x" * 16], ["{}"], [1])
    assert "Seq Scan" not in plan
    assert "event_ids_pkey" in plan
