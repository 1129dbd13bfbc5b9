"""The process: it serves, watches and stops; and the tests' own entry point dies where it is told to."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import asyncpg
import httpx
import pytest

from contracts.envelope import EVENT_PATH
from contracts.heartbeat import Depth
from ingest.config import IngestConfig
from ingest.service import serve
from tests.ingest.backend import SECRET, an_id, backend, beat, event, signed
from tests.support.serve_faulty import AFTER, BEFORE, SECRET_VARIABLE


async def test_serve_runs_until_stopped_and_two_share_a_port(dsn: str) -> None:
    stop = asyncio.Event()
    ports: asyncio.Queue[int] = asyncio.Queue()
    config = IngestConfig(dsn=dsn, secrets=(SECRET,))

    def start(port: int) -> asyncio.Task[None]:
        return asyncio.create_task(
            serve(config, host="127.0.0.1", port=port, stop=stop, on_ready=ports.put_nowait, reuse_port=True)
        )

    first = start(0)
    port = await ports.get()
    second = start(port)
    assert await ports.get() == port
    for _ in range(8):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            event_id, body = an_id(), event()
            assert (await client.post(EVENT_PATH, content=body, headers=signed(event_id, body))).is_success
    stop.set()
    async with asyncio.timeout(10):
        await asyncio.gather(first, second)
    with pytest.raises(OSError, match=r"refused|failed"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_the_watch_looks_by_itself(dsn: str) -> None:
    async with backend(dsn, watch_every_s=0.05, backlog_records=5) as b:
        assert (await b.post_heartbeat(beat(depth=Depth(waiting=6)))).status_code == 200
        async with asyncio.timeout(10):
            while not await b.fetch("SELECT 1 FROM lake.alerts WHERE name = 'collector.backlog'"):
                await asyncio.sleep(0.02)


async def test_it_works_as_behind_a_transaction_pooler(dsn: str) -> None:
    """No named statements and no session settings; many commits on each connection."""
    async with backend(dsn, transaction_pooler=True, writer_connections=2) as b:
        for _ in range(3):
            event_id = an_id()
            lines = [event(event_id=event_id, digest="aa" * 16), event(event_id=event_id, digest="bb" * 16)]
            assert (await b.post_batch(*lines)).status_code == 200
        assert await b.count() == 3
        assert await b.fetch("SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'zaplake%'") == []


async def test_commits_are_durable_whatever_the_database_prefers(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    await connection.execute("""
        CREATE TABLE public.seen (setting text);
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
        CREATE TRIGGER note AFTER INSERT ON lake.event_ids FOR EACH ROW EXECUTE FUNCTION note();
    """)
    await connection.close()
    async with backend(dsn) as b:
        assert (await b.post(an_id(), event())).status_code == 201
        assert await b.fetch("SELECT setting FROM public.seen") == [{"setting": "on"}]


@pytest.mark.parametrize(("point", "stored"), [(BEFORE, 1), (AFTER, 2)])
async def test_a_fault_point_kills_the_process_there(dsn: str, point: str, stored: int) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.serve_faulty", "--dsn", dsn,
        "--kill-at", point, "--kill-on", "2",
        env=os.environ | {SECRET_VARIABLE: SECRET.decode()}, cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    ready = json.loads(await process.stdout.readline())
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ready['port']}") as client:
        ids = [an_id(), an_id()]
        answer = await client.post(EVENT_PATH, content=event(), headers=signed(ids[0], event()))
        assert answer.status_code == 201
        with pytest.raises(httpx.TransportError):
            await client.post(EVENT_PATH, content=event(), headers=signed(ids[1], event()))
    assert await process.wait() == -signal.SIGKILL
    async with backend(dsn) as b:
        assert await b.count() == stored
        answers = [(await b.post(event_id, event())).status_code for event_id in ids]
        assert answers == [200, 200 if stored == 2 else 201]
        assert await b.count() == 2
