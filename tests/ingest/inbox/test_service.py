"""The door of ``zaplake work``: whether it is ready, and metrics that say what the rules did."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx

from ingest.inbox.config import InboxConfig
from ingest.inbox.consumer import Consumer
from ingest.inbox.service import serve_inbox
from tests.ingest.inbox.log import write
from tests.ingest.inbox.running import DEADLINE_S, HOW_MANY, RAN, consumer, counting, poisoned, until
from tests.support.metrics import documented, families, value

PREFIX = "zaplake_inbox_"


@contextlib.asynccontextmanager
async def door(dsn: str, *consumers: Consumer, **limits: Any) -> AsyncIterator[httpx.AsyncClient]:
    config = InboxConfig(
        dsn=dsn, **{"poll_ms": 5, "watch_every_s": 0.05, "reconnect_pause_s": 0.05, **limits}
    )
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve_inbox(config, consumers, host="127.0.0.1", port=0, stop=stop, on_ready=port.set_result)
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{await port}", trust_env=False) as client:
            yield client
    finally:
        stop.set()
        await serving


async def ready(client: httpx.AsyncClient, status: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while (await client.get("/readyz")).status_code != status:
            await asyncio.sleep(0.01)


async def told(client: httpx.AsyncClient) -> str:
    """The page of metrics, once the watch has seen that one event is parked and none waits."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            page = (await client.get("/metrics")).text
            is_parked = value(page, f"{PREFIX}parked_events", state="failed") == 1
            if is_parked and value(page, f"{PREFIX}unread_events") == 0:
                return page
            await asyncio.sleep(0.01)


async def test_metrics_say_what_the_rules_did_and_the_page_lists_all_of_them(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(RAN)
    await write(connection, "{}", '{"poison": true}', "{}")
    async with door(dsn, consumer(counting(), poisoned())) as client:
        await ready(client, 200)
        await until(connection, HOW_MANY, 2)
        page = await told(client)
        counted = {
            outcome: value(page, f"{PREFIX}events_total", outcome=outcome, consumer="rules")
            for outcome in ("processed", "failed", "dead")
        }
        assert counted == {"processed": 2, "failed": 1, "dead": 0}
        assert families(page) == documented(PREFIX)
        assert (await client.get("/else")).status_code == 404
        assert (await client.get("/metrics", headers={"x-forwarded-for": "203.0.113.9"})).status_code == 404
    await connection.close()


async def test_without_a_database_it_lives_and_is_not_ready() -> None:
    async with door("postgresql://nobody@127.0.0.1:9/none", consumer(counting())) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503


async def test_a_database_without_the_schema_is_waited_for(pg_server: Any) -> None:
    """Migrations may come after the first worker."""
    async with door(pg_server.dsn, consumer(counting())) as client:
        assert (await client.get("/healthz")).status_code == 200
