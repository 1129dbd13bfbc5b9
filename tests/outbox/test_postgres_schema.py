"""The engine's schema: migrations equal the metadata, and the states of code and database are the same."""

from __future__ import annotations

import re
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateSchema

from outbox.postgres import statements, tables
from outbox.postgres.config import PRIORITY_MAX, QueueConfig
from outbox.postgres.enqueue import DueRecord
from outbox.postgres.states import ALLOWED, IN_ROWS, LEASED, RecordState
from tests.support.postgres import PgServer, database_name, schema_dump


async def test_migrations_and_metadata_make_the_same_schema(dsn: str, pg_server: PgServer) -> None:
    made = database_name()
    await pg_server.run(f"CREATE DATABASE {made}")
    try:
        await from_metadata(pg_server.dsn_of(made))
        expected = schema_dump(dsn, "engine")
        assert len([line for line in expected if line.startswith("CREATE TABLE")]) == 3
        assert schema_dump(pg_server.dsn_of(made), "engine") == expected
    finally:
        await pg_server.run(f"DROP DATABASE {made} WITH (FORCE)")


async def from_metadata(dsn: str) -> None:
    async def connect() -> asyncpg.Connection[Any]:
        return await asyncpg.connect(dsn)

    def create(connection: Connection) -> None:
        connection.execute(CreateSchema("engine"))
        tables.metadata.create_all(connection)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(create)
    await engine.dispose()


CHECKS = """
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
 WHERE conrelid = 'engine.records'::regclass AND contype = 'c'
"""


async def test_the_database_knows_the_states_of_the_code(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    checks = dict(await connection.fetch(CHECKS))
    await connection.close()
    assert set(re.findall(r"'(\w+)'", checks["records_state_check"])) == set(IN_ROWS)
    assert set(re.findall(r"'(\w+)'", checks["records_lease_check"])) == set(LEASED)
    assert [int(n) for n in re.findall(r"\d+", checks["records_priority_check"])] == [0, PRIORITY_MAX]
    for statement in (statements.CLAIM, statements.NEXT_DUE):
        assert f"generate_series(0, {PRIORITY_MAX})" in statement


def test_every_state_is_reached_and_only_a_delivery_is_an_end() -> None:
    assert set(ALLOWED) == set(RecordState)
    reached: set[RecordState] = set()
    grown = {RecordState.WAITING}
    while grown - reached:
        reached |= grown
        grown = set().union(*(ALLOWED[state] for state in reached))
    assert reached == set(RecordState)
    assert [state for state, after in ALLOWED.items() if not after] == [RecordState.DELIVERED]


@pytest.mark.parametrize("lease_s", [1.0, 39.0])
def test_a_lease_shorter_than_two_calls_is_refused(lease_s: float) -> None:
    with pytest.raises(ValueError, match="less than twice the longest call"):
        QueueConfig(lease_s=lease_s, call_s_max=20)
    QueueConfig(lease_s=40, call_s_max=20)


@pytest.mark.parametrize(
    "wrong",
    [{"priority": 10}, {"priority": -1}, {"id": ""}, {"id": "a\0b"}, {"body": b"x" * (16 * 1024 * 1024 + 1)}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_no_queue_takes_is_refused_before_the_database(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"priority|id|body"):
        DueRecord(**{"id": "a", "body": b"", **wrong})
