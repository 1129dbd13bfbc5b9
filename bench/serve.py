"""The servers under test, each in a process of its own: ingest and collector as they ship, or as a reference.

A reference differs from ours in one decision: commit per request, commit per event, or no fsync.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from bench import requests
from collector.amqp_config import AmqpConfig
from collector.config import CollectorConfig
from collector.daemon import Daemon, DaemonState
from ingest.config import IngestConfig
from ingest.service import serve
from outbox.clock import SystemClock
from outbox.metering import MeteredStore
from outbox.sqlite import SqliteStore, open_sqlite
from outbox.sqlite_engine import SqliteEngine
from outbox.sqlite_thread import OPERATIONS_PER_COMMIT_MAX
from zaplake.logs import configure
from zaplake.process import run_until_stopped
from zaplake.settings import LogSettings

STOP_S_MAX = 30.0
NO_BROKER = "amqp://127.0.0.1:9/"
_SYNCHRONOUS = "PRAGMA synchronous"


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The line that a server prints when its door accepts. ``durability`` is empty for ingest."""

    port: int
    durability: str = ""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    pid: int
    ready: Ready


@contextlib.contextmanager
def running(role: str, *arguments: str) -> Iterator[Running]:
    """A server process; ended by SIGTERM. RuntimeError when it fails to start or to stop."""
    command = [sys.executable, "-m", "bench.serve", role, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield Running(pid=process.pid, ready=_read_ready(role, process.stdout))
        finally:
            process.terminate()
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    if process.returncode != 0:
        raise RuntimeError(f"{role} ended with {process.returncode}")


def _read_ready(role: str, stdout: IO[bytes]) -> Ready:
    line = stdout.readline()
    if not line:
        raise RuntimeError(f"{role} did not start")
    return msgspec.json.decode(line, type=Ready)


def _say(ready: Ready) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.buffer.flush()


async def _ingest(stop: asyncio.Event, dsn: str, *, group_commit: bool) -> None:
    config = IngestConfig(dsn=dsn, secrets=(requests.SECRET,), group_commit=group_commit)
    await serve(
        config,
        host="127.0.0.1",
        port=0,
        stop=stop,
        on_ready=lambda port: _say(Ready(port=port)),
    )


async def _collector(
    stop: asyncio.Event, folder: Path, backend_url: str, *, per_event: bool, synchronous: str, amqp_queue: str
) -> None:
    broker = AmqpConfig(gateway="evolution", url=os.environ.get("AMQP_URL", NO_BROKER), queue=amqp_queue)
    config = CollectorConfig(
        backend_url=backend_url,
        secrets=(requests.SECRET,),
        data_folder=folder,
        port=0,
        amqp=(broker,) if amqp_queue else (),
    )
    durability = ""
    operations = 1 if per_event else OPERATIONS_PER_COMMIT_MAX

    async def open_store() -> MeteredStore:
        nonlocal durability
        store = await open_sqlite(folder, SystemClock(), operations_per_commit_max=operations)
        durability = await _set_synchronous(store, synchronous)
        return store

    def on_state(state: DaemonState) -> None:
        if state.state == "ready":
            _say(Ready(port=state.port, durability=durability))

    await Daemon(config, open_store=open_store).run(stop, on_state)


async def _set_synchronous(store: SqliteStore, synchronous: str) -> str:
    """Switch it on the writer's own connection; says what that connection then answers."""

    def switch(engine: SqliteEngine) -> str:
        engine.connection.execute(f"PRAGMA synchronous = {synchronous}").fetchall()
        journal = engine.connection.execute("PRAGMA journal_mode").fetchone()[0]
        return f"journal_mode={journal} synchronous={engine.connection.execute(_SYNCHRONOUS).fetchone()[0]}"

    return await store._do(switch, bare=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.serve")
    roles = parser.add_subparsers(dest="role", required=True)
    ingest = roles.add_parser("ingest")
    ingest.add_argument("--dsn", required=True)
    ingest.add_argument("--per-request", action="store_true")
    collector = roles.add_parser("collector")
    collector.add_argument("--folder", type=Path, required=True)
    collector.add_argument("--backend-url", required=True)
    collector.add_argument("--per-event", action="store_true")
    collector.add_argument("--amqp-queue", default="", help="read this queue of AMQP_URL's broker")
    collector.add_argument("--synchronous", choices=("FULL", "OFF"), default="FULL")
    asked = parser.parse_args()
    configure(LogSettings(level="warning"))
    if asked.role == "ingest":
        run_until_stopped(lambda stop: _ingest(stop, asked.dsn, group_commit=not asked.per_request))
    else:
        run_until_stopped(
            lambda stop: _collector(
                stop,
                asked.folder,
                asked.backend_url,
                per_event=asked.per_event,
                synchronous=asked.synchronous,
                amqp_queue=asked.amqp_queue,
            )
        )


if __name__ == "__main__":
    main()
