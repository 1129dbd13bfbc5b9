"""The hot statements have good plans: empty and full, planned for the values or once for all of them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final

import asyncpg
import pytest

from outbox.postgres import statements as sql
from tests.outbox.postgres import a_queue
from tests.support.postgres import PgServer, fresh_database

LEASE: Final = timedelta(seconds=60)
ONE: Final[tuple[list[int], list[int]]] = ([7], [7])
NONE: Final = timedelta(0)
HOT: Final[dict[str, tuple[str, tuple[Any, ...], str]]] = {
    "claim": (sql.CLAIM, ("q", 100, 10**9, LEASE), "records_waiting_idx"),
    "claim unknown": (sql.CLAIM_UNKNOWN, ("q", 100, LEASE), "records_unknown_idx"),
    "next due": (sql.NEXT_DUE, ("q",), "records_waiting_idx"),
    "deliver": (sql.DELIVER, ONE, "records_pkey"),
    "come back": (sql.COME_BACK, (*ONE, [NONE], [1], [500], ["r"], "waiting"), "records_pkey"),
    "bury": (sql.BURY, (*ONE, [400], ["r"]), "records_pkey"),
    "release": (sql.RELEASE, ONE, "records_pkey"),
    "renew": (sql.RENEW, (*ONE, LEASE), "records_pkey"),
    "sweep": (sql.SWEEP, ("q", 100, "waiting"), "records_leased_idx"),
    "enqueue": (sql.ENQUEUE, ("q", ["a"], [b""], None, None, None), "ids_pkey"),
    "forget": (sql.FORGET, ("q", LEASE, 100), "ids_created_idx"),
}
WAITING_NOW, WAITING_LONG, LEASED = 20_000, 20_000, 200
FILL = """
INSERT INTO engine.records
       (rowid, queue, id, state, priority, due_at, created_at, label, body, lease, lease_until)
SELECT nextval('engine.rowid_seq'), $1, 'r' || n, $2, n % 3, now() + $3::interval, now(), '',
       repeat('x', 200)::bytea, CASE WHEN $2 = 'claimed' THEN n END,
       CASE WHEN $2 = 'claimed' THEN now() + interval '1 minute' END
  FROM generate_series(1, $4::integer) AS n
"""
DELIVERED = """
INSERT INTO engine.ids (queue, id, rowid, created_at)
SELECT $1, 'd' || n, nextval('engine.rowid_seq'), now() FROM generate_series(1, $2::integer) AS n
"""


async def fill(dsn: str, *, delivered: int) -> None:
    connection = await asyncpg.connect(dsn)
    for queue in ("q", a_queue()):
        await connection.execute(FILL, queue, "waiting", timedelta(hours=-1), WAITING_NOW // 2)
        await connection.execute(FILL, queue, "waiting", timedelta(days=1), WAITING_LONG // 2)
        await connection.execute(FILL, queue, "unknown", timedelta(hours=-1), LEASED)
        await connection.execute(FILL, queue, "claimed", timedelta(hours=-1), LEASED)
        await connection.execute(DELIVERED, queue, delivered // 2)
    await connection.close()


async def vacuum(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("VACUUM ANALYZE engine.records, engine.ids, engine.dead")
    await connection.close()


async def plan_of(connection: asyncpg.Connection[Any], name: str) -> str:
    statement, values, _ = HOT[name]
    rows = await connection.fetch(f"EXPLAIN (COSTS OFF) {statement}", *values)
    return "\n".join(row[0] for row in rows)


def assert_good(name: str, plan: str) -> None:
    assert HOT[name][2] in plan, f"{name}\n{plan}"
    assert not re.search("Seq Scan on (records|ids)", plan), f"{name}\n{plan}"
    if name in ("claim", "next due"):
        # One search of the index for each priority, bounded at both ends: nothing is sorted or filtered.
        ahead = r" AND \(due_at <= .*\)" if name == "claim" else ""
        assert re.search(rf"Index Cond: \(\(queue = .*\) AND \(priority = level.priority\){ahead}\)", plan), (
            plan
        )
        search = plan[: plan.index("Index Cond")].rpartition("LockRows")[2]
        assert "Sort" not in search, plan


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    """As a queue's pool has it, on a database of the test's own."""
    opened = await asyncpg.connect(dsn, server_settings={"enable_seqscan": "off", "jit": "off"})
    yield opened
    await opened.close()


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_plans_of_an_empty_and_of_a_full_queue(
    dsn: str, connection: asyncpg.Connection[Any], mode: str
) -> None:
    await connection.execute(f"SET plan_cache_mode = {mode}")
    for name in HOT:
        assert_good(name, await plan_of(connection, name))
    await vacuum(dsn)
    for name in HOT:
        assert_good(name, await plan_of(connection, name))
    await fill(dsn, delivered=20_000)
    for name in HOT:
        assert_good(name, await plan_of(connection, name))
    await vacuum(dsn)
    for name in HOT:
        assert_good(name, await plan_of(connection, name))


async def test_a_full_queue_needs_no_setting_of_the_session(dsn: str) -> None:
    """Behind a pooler there are none."""
    await fill(dsn, delivered=20_000)
    await vacuum(dsn)
    plain = await asyncpg.connect(dsn, server_settings={"plan_cache_mode": "force_generic_plan"})
    for name in HOT:
        assert_good(name, await plan_of(plain, name))
    await plain.close()


async def test_the_sixth_claim_is_planned_as_well_as_the_first(
    dsn: str, connection: asyncpg.Connection[Any]
) -> None:
    """From the sixth execution on the server may use one plan for all values."""
    await fill(dsn, delivered=2)
    statement = HOT["claim"][0]
    await connection.execute(f"PREPARE claim (text, bigint, bigint, interval) AS {statement}")
    given = "'q', 100, 1000000000, interval '60 s'"
    for _ in range(7):
        await connection.execute(f"EXECUTE claim ({given})")
    rows = await connection.fetch(f"EXPLAIN (ANALYZE, COSTS OFF) EXECUTE claim ({given})")
    plan = "\n".join(row[0] for row in rows)
    assert_good("claim", plan)
    assert "Rows Removed" not in plan, "what is due tomorrow was read"


async def read_pages(connection: asyncpg.Connection[Any]) -> int:
    """Pages that one claim of 100 touches."""
    statement, values, _ = HOT["claim"]
    rows = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {statement}", *values)
    plan = "\n".join(row[0] for row in rows)
    hit = re.search(r"Buffers: shared (?:hit=(\d+))?(?: ?read=(\d+))?", plan)
    assert hit is not None, plan
    return sum(int(number) for number in hit.groups() if number)


async def claims_beside(server: PgServer, template: str, delivered: int) -> int:
    async with fresh_database(server, template) as dsn:
        await fill(dsn, delivered=delivered)
        await vacuum(dsn)
        connection = await asyncpg.connect(dsn)
        try:
            return await read_pages(connection)
        finally:
            await connection.close()


@pytest.mark.parametrize("delivered", [60_000, pytest.param(1_000_000, marks=pytest.mark.chaos)])
async def test_what_was_delivered_costs_a_claim_nothing(
    pg_server: PgServer, migrated_template: str, delivered: int
) -> None:
    few = await claims_beside(pg_server, migrated_template, 2)
    many = await claims_beside(pg_server, migrated_template, delivered)
    print(f"pages of a claim: {few} beside none, {many} beside {delivered} delivered")
    assert many <= few * 1.2
