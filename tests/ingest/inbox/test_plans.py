"""The hot statements have good plans, also the generic ones that a prepared statement gets in the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from ingest.inbox import statements
from ingest.inbox.config import InboxConfig
from ingest.inbox.statements import begin
from ingest.reading import SHARDS

FILL = """
INSERT INTO lake.whatsapp_event_logs (event_id, type, payload, shard, kind)
SELECT gen_random_uuid(), 'messages.upsert', '{}', n % 64, 'message' FROM generate_series(1, 50000) n
"""


@pytest.fixture
async def generic(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A connection whose plans are the generic ones, on a log with events and two consumers."""
    connection = await asyncpg.connect(dsn, server_settings={"plan_cache_mode": "force_generic_plan"})
    await connection.execute(FILL)
    names = ["rules", "others"]
    await connection.fetch(statements.ADD_CONSUMERS, names)
    await connection.fetch(statements.ADD_CURSORS, names, SHARDS)
    await connection.execute("UPDATE lake.inbox_cursors SET position = 40000")
    await connection.execute("VACUUM ANALYZE")
    yield connection
    await connection.close()


async def plan(connection: asyncpg.Connection[Any], statement: str, arguments: str) -> str:
    """The plan that a statement has from its sixth execution on, in a transaction of the inbox."""
    await connection.execute(begin(InboxConfig(dsn="")))
    await connection.execute(f"PREPARE asked AS {statement}")
    rows = await connection.fetch(f"EXPLAIN EXECUTE asked ({arguments})")
    await connection.execute("ROLLBACK; DEALLOCATE asked")
    found = "\n".join(row[0] for row in rows)
    assert "50000'" not in found, "not the generic plan"
    return found


@pytest.mark.parametrize("kinds", [None, ["message"]], ids=["all", "some"])
async def test_reading_walks_the_index_and_sorts_nothing_of_the_log(
    generic: asyncpg.Connection[Any], kinds: list[str] | None
) -> None:
    listed = "'{message}'" if kinds else "NULL"
    found = await plan(
        generic, statements.READ, f"'{{1,2}}', '{{40000,40000}}', 50000, 500, {listed}, {listed}, 65536, 1024"
    )
    assert "shard_seq_idx" in found
    assert "Seq Scan" not in found
    assert "Sort" not in found.replace("Sort Key", ""), "it would read a whole backlog for its first rows"
    assert "Hash" not in found, "only a nested loop keeps each shard's rows in order"
    rows = await generic.fetch(statements.READ, [1, 2], [40000, 40000], 50000, 500, kinds, kinds, 65536, 1024)
    assert [row["seq"] for row in rows if row["shard"] == 1] == list(range(40001, 50001, 64))


async def test_looking_for_work_probes_the_index(generic: asyncpg.Connection[Any]) -> None:
    found = await plan(generic, statements.FIND_WORK, "'{1,2}', '{40000,40000}', 50000")
    assert "shard_seq_idx" in found
    assert "Sort" not in found.replace("Sort Key", "")
    assert "Seq Scan" not in found


async def test_a_parked_event_is_found_by_the_index(generic: asyncpg.Connection[Any]) -> None:
    found = await plan(generic, statements.READ_WHOLE, "'{1}', '{40001}'")
    assert "shard_seq_idx" in found
    assert "Seq Scan" not in found


async def test_looking_for_work_does_not_read_the_cursors(generic: asyncpg.Connection[Any]) -> None:
    """While a dump is open they have a version for each batch since it began."""
    found = await plan(generic, statements.FIND_WORK, "'{1,2}', '{40000,40000}', 50000")
    assert "inbox_cursors" not in found


async def test_the_cursors_stay_small(generic: asyncpg.Connection[Any]) -> None:
    """Each batch updates its cursors in place: no index entry, and what is dead is reused."""
    for turn in range(300):
        await generic.fetch(statements.SETTLE, "rules", list(range(64)), [40001 + turn] * 64)
    pages = await generic.fetchval("SELECT pg_relation_size('lake.inbox_cursors') / 8192")
    assert pages < 40
