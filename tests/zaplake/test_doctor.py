"""Doctor finds what is planted, names it and what to do, and is content where all is well."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import asyncpg

from outbox.sqlite_version import OLDEST
from simulator.api import EvolutionApi
from tests.zaplake.operating import Operator, served
from tests.zaplake.processes import post, running, text_message
from zaplake.alert_steps import STEPS
from zaplake.machine import SYNC_S_MAX, built, examine_machine, synced

SECRET, OTHER = "a-secret-of-this-test", "another-secret-of-this-test"
KEY, TOKEN = "an-api-key-of-this-test", "a-token-of-this-test"
LOOK_BYTES = 65536


class OtherTime:
    """A way to the server on ``port`` on which each answer's Date is ``ahead`` of the real one."""

    def __init__(self, port: int, ahead: timedelta) -> None:
        self._port, self._ahead = port, ahead

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        forward = asyncio.create_task(self._pump(reader, back))
        await self._pump(there, writer)
        forward.cancel()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        date = b"\r\ndate: " + format_datetime(datetime.now(UTC) + self._ahead, usegmt=True).encode()
        with contextlib.suppress(ConnectionError):
            while read := await reader.read(LOOK_BYTES):
                writer.write(re.sub(rb"\r\ndate: [^\r]+", date, read))
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def other_time(url: str, ahead: timedelta) -> AsyncIterator[str]:
    relay = OtherTime(int(url.rpartition(":")[2]), ahead)
    server = await asyncio.start_server(relay.converse, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@contextlib.asynccontextmanager
async def backend(dsn: str, folder: Path) -> AsyncIterator[str]:
    env = {"DATABASE_URL": dsn, "ZAPLAKE_SIGNING_SECRETS": SECRET}
    with running("serve", "--json", "--http-port", 0, log=folder / "serve.log", env=env) as serve:
        yield (await asyncio.to_thread(serve.next_line))["ingest"]


async def test_doctor_finds_five_planted_faults_and_is_content_when_they_are_repaired(
    dsn: str, tmp_path: Path, operator: Operator
) -> None:
    api = EvolutionApi(key=KEY, instances={"loja": "close"})
    api.webhooks["loja"] = {"url": "http://old.test/hook", "enabled": True, "events": ["CALL"]}
    async with (
        backend(dsn, tmp_path) as url,
        served(api) as evolution,
        other_time(url, timedelta(hours=1)) as shifted,
    ):
        env = {
            "ZAPLAKE_SIGNING_SECRETS": OTHER,  # 1: not the backend's
            "ZAPLAKE_COLLECTOR_BACKEND_URL": shifted,  # 2: an hour ahead
            "ZAPLAKE_GATEWAY_TOKENS": TOKEN,
            "ZAPLAKE_EVOLUTION_API_URL": evolution,  # 3 and 4: closed, webhook elsewhere
            "ZAPLAKE_EVOLUTION_API_KEY": KEY,
        }
        options = ("--data-dir", tmp_path / "data")
        collect = ("collect", "--json", "--collector-port", 0, *options)
        with running(*collect, log=tmp_path / "collect.log", env=env) as collector:
            door = (await asyncio.to_thread(collector.next_line))["collector"]
            typo = f"{door}/gateways/evolutoin/loja"  # 5: events are lost
            assert (await asyncio.to_thread(post, typo, text_message("3EB0TYPO1"))).status_code == 404
            found = await operator("doctor", *options, env=env, hidden=(KEY, TOKEN, OTHER))
            await asyncio.to_thread(collector.stop)  # the relay is this loop
        assert found.code == 1
        for planted in (
            "WRONG the backend refuses our signing secret (401)",
            "WRONG door.no_gateway: events are lost",
            "WRONG instance loja: close, nothing arrives from it",
            "WRONG instance loja: webhook not connected: url: http://old.test/*** instead of",
        ):
            assert planted in found.out, found.out
        assert re.search(r"WRONG this machine's clock is 3[56]\d\d s behind the backend's", found.out), (
            found.out
        )
        assert found.out.count("WRONG") == found.out.count("→")
        repaired = {**env, "ZAPLAKE_SIGNING_SECRETS": SECRET, "ZAPLAKE_COLLECTOR_BACKEND_URL": url}
        api.instances["loja"] = "open"
        with running(*collect, log=tmp_path / "collect.log", env=repaired) as collector:
            door = (await asyncio.to_thread(collector.next_line))["collector"]
            again = ("gateway", "connect", "evolution", "--instance", "loja", "--collector-url", door)
            assert (await operator(*again, env=repaired)).code == 0

            async def content() -> str:
                said = await operator("doctor", *options, env=repaired)
                return said.out if said.code == 0 else ""

            async with asyncio.timeout(20):  # shipping goes on by itself
                while not (out := await content()):
                    await asyncio.sleep(0.2)
        for well in (
            "ok    a synced write takes",
            f"ok    SQLite {sqlite3.sqlite_version}",
            "ok    backend: its clock and ours agree",
            "ok    the backend accepts our signing secret",
            f"ok    gateway {evolution}: Evolution 2.3.7 answers",
            "ok    instance loja: webhook connected to this collector",
        ):
            assert well in out, out


def test_a_full_or_slow_disk_and_an_old_sqlite_are_found(tmp_path: Path) -> None:
    well = list(examine_machine(tmp_path / "not" / "made" / "yet"))
    assert [finding.is_well for finding in well[1:]] == [synced(0.0).is_well, True]
    assert list(tmp_path.iterdir()) == [], "a look leaves nothing behind"
    full = next(iter(examine_machine(tmp_path, free_bytes_min=2**62)))
    assert not full.is_well
    assert "are free at" in full.what
    assert synced(SYNC_S_MAX).is_well
    assert not synced(SYNC_S_MAX * 1.1).is_well
    assert not synced(None).is_well
    assert built(OLDEST).is_well
    assert not built((3, 37, 2)).is_well


async def test_doctor_writes_a_probe_into_the_blob_store(
    dsn: str, tmp_path: Path, operator: Operator
) -> None:
    env = {"DATABASE_URL": dsn, "ZAPLAKE_SIGNING_SECRETS": SECRET}
    nothing = await operator("doctor", "--data-dir", tmp_path, env=env)
    assert "ok    no blob store yet" in nothing.out
    kept = tmp_path / "blobs" / "kept"
    kept.mkdir(parents=True)
    good = await operator("doctor", "--data-dir", tmp_path, env=env)
    assert "ok    blob store: the folder blobs of the data folder can be written" in good.out
    assert list(kept.rglob("*.*")) == []
    (kept / "probe").rmdir()
    (kept / "probe").write_text("in the way")
    bad = await operator("doctor", "--data-dir", tmp_path, env=env)
    assert "WRONG the blob store, the folder blobs of the data folder, cannot be written" in bad.out
    away = {**env, "ZAPLAKE_INGEST_BLOB_STORE_URL": "s3://lake", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}
    gone = await operator("doctor", "--data-dir", tmp_path, env={**away, **keys})
    assert "WRONG the blob store, s3://lake, cannot be written" in gone.out
    odd = await operator(
        "doctor", "--data-dir", tmp_path, env={**env, "ZAPLAKE_INGEST_BLOB_STORE_URL": "x://y"}
    )
    assert "ingest.blob_store_url" in odd.out


async def test_doctor_tells_what_the_backend_alerts_of(dsn: str, tmp_path: Path, operator: Operator) -> None:
    env = {"DATABASE_URL": dsn, "ZAPLAKE_SIGNING_SECRETS": SECRET}
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "INSERT INTO lake.alerts (name, subject, detail, resolved_at)"
            " VALUES ('inbox.paused', 'rules', '{}', NULL), ('inbox.behind', 'rules', '{}', now())"
        )
    finally:
        await connection.close()
    found = await operator("doctor", "--data-dir", tmp_path, env=env)
    assert f"WRONG the backend's alert inbox.paused rules\n      → {STEPS['inbox.paused']}" in found.out
    assert "inbox.behind" not in found.out, "it is over"


async def test_doctor_beside_a_collector_sends_nobody_to_a_postgres_or_a_secret_that_is_elsewhere(
    tmp_path: Path, operator: Operator
) -> None:
    away = {"ZAPLAKE_COLLECTOR_BACKEND_URL": "http://127.0.0.1:1"}
    options = ("--data-dir", tmp_path / "data")
    collect = ("collect", "--json", "--collector-port", 0, *options)
    env = {**away, "ZAPLAKE_SIGNING_SECRETS": SECRET}
    with running(*collect, log=tmp_path / "collect.log", env=env) as collector:
        await asyncio.to_thread(collector.next_line)
        found = await operator("doctor", *options)  # a shell that knows nothing of the service
    for said in (
        "ok    signing secret: none in this shell; the running collector has its own",
        "ok    no Postgres here: the backend has its own",
        "WRONG the backend http://127.0.0.1:1 does not answer",
    ):
        assert said in found.out, found.out
    assert found.out.count("WRONG") == 1
