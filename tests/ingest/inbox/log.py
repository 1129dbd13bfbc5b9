"""Events written straight into the log, and a reader by cursor with parts that a test can break."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import asyncpg

INSERT = """
INSERT INTO lake.whatsapp_event_logs (event_id, type, payload, shard, kind, scope, chat_jid)
SELECT event_id, 't', payload::jsonb, $3, $4, 'evolution/shop', $5
  FROM unnest($1::uuid[], $2::text[]) AS r (event_id, payload)
RETURNING seq
"""
HORIZON = "SELECT lake.horizon()"
READ = "SELECT seq FROM lake.whatsapp_event_logs WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT 500"


async def write(
    connection: asyncpg.Connection[Any],
    *payloads: str,
    shard: int = 0,
    kind: str | None = None,
    chat_jid: str | None = None,
) -> list[int]:
    """Insert one event a payload, in one statement; returns their seq."""
    given = payloads or ("{}",)
    rows = await connection.fetch(INSERT, [uuid.uuid4() for _ in given], list(given), shard, kind, chat_jid)
    return [row["seq"] for row in rows]


async def all_seq(connection: asyncpg.Connection[Any]) -> list[int]:
    """What the log holds."""
    rows = await connection.fetch("SELECT seq FROM lake.whatsapp_event_logs ORDER BY seq")
    return [row["seq"] for row in rows]


class Reader:
    """Reads on from its position; ``horizon`` is the statement that says how far it may."""

    def __init__(self, connection: asyncpg.Connection[Any], horizon: str = HORIZON) -> None:
        self._connection, self._horizon = connection, horizon
        self.position = 0
        self.read: list[int] = []

    async def step(self) -> Sequence[int]:
        """One batch."""
        horizon = await self._connection.fetchval(self._horizon)
        rows = await self._connection.fetch(READ, self.position, horizon)
        found = [row["seq"] for row in rows]
        if found:
            self.position = found[-1]
            self.read += found
        return found
