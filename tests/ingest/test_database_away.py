"""An outage is always 503; nothing is lost, nothing doubled, and it heals by itself."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from ingest.config import IngestConfig
from ingest.lane import connect
from ingest.partitions import make_ahead
from ingest.row import UnavailableError
from ingest.schema import upgrade
from tests.ingest.backend import Backend, an_id, backend, event
from tests.ingest.inbox.log import write
from tests.ingest.inbox.running import until
from tests.ingest.proxy import Proxy, proxy_to
from tests.support.postgres import PgServer, database_name


@pytest.fixture
def short_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="zlpx"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def proxy(dsn: str, short_folder: Path) -> AsyncIterator[Proxy]:
    async with proxy_to(dsn, short_folder) as running:
        yield running


async def until_status(b: Backend, event_id: str, body: bytes, *wanted: int) -> int:
    """Send again, as a collector would, until one of the wanted answers comes; every other is a 503."""
    async with asyncio.timeout(20):
        while True:
            status = (await b.post(event_id, body)).status_code
            if status in wanted:
                return status
            assert status == 503
            await asyncio.sleep(0.02)


async def test_503_while_away_and_it_heals_by_itself(dsn: str, proxy: Proxy) -> None:
    async with backend(dsn, database=proxy.dsn, reconnect_pause_s=0.05) as b:
        assert (await b.post(an_id(), event())).status_code == 201
        await proxy.close()
        ids = [an_id() for _ in range(20)]
        answers = await asyncio.gather(
            *[b.post(i, event()) for i in ids], b.post_batch(event(event_id=ids[0]))
        )
        assert {answer.status_code for answer in answers} == {503}
        assert all(int(answer.headers["retry-after"]) > 0 for answer in answers)
        assert (await b.client.get("/readyz")).status_code == 503
        assert (await b.client.get("/healthz")).status_code == 200
        await proxy.open()
        await asyncio.gather(*[until_status(b, i, event(), 200, 201) for i in ids])
        assert (await b.client.get("/readyz")).status_code == 200
        rows = await b.events()
        assert len(rows) == 21
        assert {row["event_id"] for row in rows[1:]} == set(ids)


async def test_it_starts_without_its_database(dsn: str, proxy: Proxy) -> None:
    await proxy.close()
    async with backend(dsn, database=proxy.dsn, reconnect_pause_s=0.05) as b:
        event_id = an_id()
        assert (await b.post(event_id, event())).status_code == 503
        await proxy.open()
        assert await until_status(b, event_id, event(), 201) == 201


async def test_a_database_without_a_lake_is_an_outage_that_says_what_to_run(pg_server: PgServer) -> None:
    name = database_name()
    await pg_server.run(f"CREATE DATABASE {name}")
    try:
        dsn = pg_server.dsn_of(name)
        async with backend(dsn, reconnect_pause_s=0.05) as b:
            event_id = an_id()
            assert (await b.post(event_id, event())).status_code == 503
            with pytest.raises(UnavailableError, match="run: zaplake db upgrade"):
                await b.service.desk.look_once()
            await upgrade(dsn)
            assert await until_status(b, event_id, event(), 201) == 201
    finally:
        await pg_server.run(f"DROP DATABASE {name} WITH (FORCE)")


async def test_backends_that_are_killed_again_and_again(dsn: str) -> None:
    async with backend(dsn, reconnect_pause_s=0.01) as b:
        killer = await asyncpg.connect(dsn)
        ids = [an_id() for _ in range(200)]
        sending = [asyncio.create_task(until_status(b, i, event(), 200, 201)) for i in ids]
        kill = """
            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name LIKE 'zaplake-ingest-%'
        """
        while not all(task.done() for task in sending):
            await killer.fetchval(kill)
            await asyncio.sleep(0.05)
        await asyncio.gather(*sending)
        assert sorted(row["event_id"] for row in await b.events()) == sorted(ids)
        await killer.close()


async def test_a_database_that_hangs_is_given_up_in_time(dsn: str, proxy: Proxy) -> None:
    async with backend(
        dsn, database=proxy.dsn, commit_s_max=0.1, connect_s_max=0.3, reconnect_pause_s=0.01
    ) as b:
        event_id = an_id()
        assert (await b.post(an_id(), event())).status_code == 201
        proxy.frozen.clear()
        assert (await b.post(event_id, event())).status_code == 503
        assert (await b.client.get("/readyz")).status_code == 503
        proxy.frozen.set()
        await until_status(b, event_id, event(), 200, 201)
        assert await b.count() == 2


async def test_a_server_that_only_reads_is_an_outage(dsn: str) -> None:
    async with backend(dsn) as b:
        (name,) = (row["name"] for row in await b.fetch("SELECT current_database() AS name"))
        await b.fetch(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        assert (await b.post(an_id(), event())).status_code == 503
        healer = await asyncpg.connect(dsn, server_settings={"default_transaction_read_only": "off"})
        await healer.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
        await healer.close()
        assert (await b.post(an_id(), event())).status_code == 201


async def test_a_month_that_was_detached_by_mistake_is_an_outage_and_no_fault_of_the_event(dsn: str) -> None:
    async with backend(dsn) as b:
        names = await b.fetch("""
            SELECT inhrelid::regclass::text AS name FROM pg_inherits
             WHERE inhparent = 'lake.whatsapp_event_logs'::regclass
        """)
        for row in names:
            await b.fetch(f"ALTER TABLE lake.whatsapp_event_logs DETACH PARTITION {row['name']}")
        event_id, body = an_id(), event()
        assert (await b.post(event_id, body)).status_code == 503
        await b.fetch("CREATE TABLE lake.everything PARTITION OF lake.whatsapp_event_logs DEFAULT")
        assert await until_status(b, event_id, body, 201) == 201


async def test_one_that_stands_still_with_the_lock_of_a_new_month_is_not_waited_for(
    dsn: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped, or behind a dead line, it would keep all others out of the log."""
    monkeypatch.setattr("ingest.partitions.IDLE_S_MAX", 1)
    monkeypatch.setattr("ingest.partitions.LOCK_S_MAX", 60)
    months = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'lake.whatsapp_event_logs'::regclass"
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    reader, maker = await asyncpg.connect(dsn), await asyncpg.connect(proxy.dsn)
    before = await reader.fetchval(months)
    async with reader.transaction():
        await reader.fetch("SELECT FROM lake.whatsapp_event_logs LIMIT 1")
        made = asyncio.create_task(make_ahead(maker, now=datetime(2099, 1, 1, tzinfo=UTC)))
        async with asyncio.timeout(60):
            while not await reader.fetchval(waiting):
                await asyncio.sleep(0.01)
        proxy.frozen.clear()
    async with backend(dsn) as b, asyncio.timeout(60):
        while (await b.post(an_id(), event())).status_code != 201:
            await asyncio.sleep(0.02)
        assert await reader.fetchval(months) == before, "nothing half made"
    proxy.frozen.set()
    with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
        await made
    await reader.close()


async def test_one_that_stands_still_within_a_commit_holds_no_reader_back(dsn: str) -> None:
    config = IngestConfig(dsn=dsn, secrets=(b"s" * 32,), commit_s_max=1)
    stopped, reader = await connect(config, name="stopped"), await asyncpg.connect(dsn)
    await stopped.execute("BEGIN")
    await write(stopped)
    (seq,) = await write(reader)
    assert await reader.fetchval("SELECT lake.horizon()") < seq
    await until(reader, "SELECT lake.horizon()", seq)
    stopped.terminate()
    await reader.close()
