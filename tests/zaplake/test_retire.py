"""`zaplake lake retire`: a collector that is gone for good no longer alarms."""

from __future__ import annotations

import asyncpg

from tests.support.postgres import PgServer, fresh_database
from tests.zaplake.operating import Operator

ADD = """
INSERT INTO lake.collectors (name, boot, beat, report, last_seen_at)
VALUES ('gone', 'b', 1, '{}', now() - interval '1 day'), ('alive', 'b', 1, '{}', now())
"""


async def test_only_who_is_silent_is_retired(dsn: str, operator: Operator) -> None:
    env = {"DATABASE_URL": dsn}
    connection = await asyncpg.connect(dsn)
    await connection.execute(ADD)
    unknown = await operator("lake", "retire", "nobody", env=env)
    assert (unknown.code, "heard of last: alive, gone" in unknown.err) == (2, True), unknown
    alive = await operator("lake", "retire", "alive", env=env)
    assert (alive.code, "stop it first" in alive.err) == (1, True), alive
    gone = await operator("lake", "retire", "gone", env=env)
    assert (gone.code, "gone is retired" in gone.out) == (0, True), gone
    left = await connection.fetch("SELECT name FROM lake.collectors")
    assert [row["name"] for row in left] == ["alive"]
    await connection.close()


async def test_a_question_to_a_database_without_a_lake_says_what_to_run(
    pg_server: PgServer, operator: Operator
) -> None:
    async with fresh_database(pg_server, "template1") as empty:
        env = {"DATABASE_URL": empty}
        for asked in (
            ("lake", "retire", "gone"),
            ("inbox", "status"),
            ("gateway", "token", "list"),
            ("gateway", "token", "create", "evolution"),
        ):
            said = await operator(*asked, env=env)
            assert said.code == 1, (asked, said)
            assert "the database has no lake or an older one" in said.err, said
            assert "run: zaplake db upgrade" in said.err
