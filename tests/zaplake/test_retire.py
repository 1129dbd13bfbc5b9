"""`zaplake lake retire`: a collector that is gone for good no longer alarms."""

from __future__ import annotations

import asyncpg

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
