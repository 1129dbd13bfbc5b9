"""A test's own entry point: the real ingest or collector, with fault points where it dies by SIGKILL.

``python -m tests.support.dying ingest|collector …`` prints ``{"port": …}`` once its door accepts. SIGUSR1
arms the fault point before the next COMMIT, SIGUSR2 the one between the next COMMIT and its answer. The
collector's clock and the room for its file are moved by orders on stdin (``tests.support.orders``).
"""

from __future__ import annotations

import argparse
import asyncio
import enum
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asgi.server import HttpServer
from collector.config import CollectorConfig, Limits
from collector.daemon import Daemon, DaemonState
from contracts.blobs import mark_lost
from ingest.config import IngestConfig
from ingest.row import CommitBatch, Committed, Row
from ingest.service import open_service
from outbox.clock import SystemClock
from outbox.metering import MeteredStore
from outbox.record import NewRecord, PutResult, Stamp
from outbox.sqlite import open_sqlite
from outbox.store import Store
from tests.support.orders import CLOCK, ROOM, MovingClock, Order, obey, room_of
from zaplake.logs import configure
from zaplake.process import run_until_stopped
from zaplake.settings import LogSettings

SECRET = b"kill-test-signing-secret"
COMMIT_S_MAX = 4.0
HEARTBEAT_S = 0.5


class Point(enum.Enum):
    BEFORE_COMMIT = signal.SIGUSR1
    AFTER_COMMIT = signal.SIGUSR2


class Fuse:
    """The armed fault point, if any."""

    def __init__(self) -> None:
        self._armed: Point | None = None
        loop = asyncio.get_running_loop()
        for point in Point:
            loop.add_signal_handler(point.value, self._arm, point)

    def _arm(self, point: Point) -> None:
        self._armed = point

    def reach(self, point: Point) -> None:
        """Dies here when this point is armed."""
        if self._armed is point:
            os.kill(os.getpid(), signal.SIGKILL)

    def is_armed(self, point: Point) -> bool:
        return self._armed is point

    def around_commit(self, commit: CommitBatch) -> CommitBatch:
        """Ingest's fault points: the statement is on its way, or Postgres has confirmed the COMMIT."""

        async def dying(rows: Sequence[Row]) -> list[Committed]:
            on_its_way = asyncio.ensure_future(commit(rows))
            await asyncio.sleep(0)
            self.reach(Point.BEFORE_COMMIT)
            fates = await on_its_way
            self.reach(Point.AFTER_COMMIT)
            return fates

        return dying


class DyingStore:
    """A ``Store`` that passes everything on; ``put`` has the fault points."""

    def __init__(self, store: Store, fuse: Fuse) -> None:
        self._store, self._fuse = store, fuse

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put(self, records: Sequence[NewRecord]) -> list[PutResult]:
        if self._fuse.is_armed(Point.BEFORE_COMMIT):
            # An id is made inside the transaction: the records before it are inserted, nothing is committed.
            await self._store.put([*records, NewRecord(id=self._die, body=b"{}")])
        results = await self._store.put(records)
        self._fuse.reach(Point.AFTER_COMMIT)
        return results

    def _die(self, _stamp: Stamp) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return ""


def _say_ready(port: int) -> None:
    print(json.dumps({"port": port}), flush=True)


async def _ingest(stop: asyncio.Event, dsn: str, port: int, secret: bytes, blobs: Path | None) -> None:
    fuse = Fuse()
    config = IngestConfig(dsn=dsn, secrets=(secret,), commit_s_max=COMMIT_S_MAX, blob_folder=blobs)
    async with open_service(config, around_commit=fuse.around_commit) as service:
        server = HttpServer(service.app, port=port, reuse_port=True)
        _say_ready(await server.start())
        await stop.wait()
        await service.drain()
        await server.stop(5)


async def _collector(
    stop: asyncio.Event, folder: Path, backend_url: str, port: int, request_timeout_s: float
) -> None:
    fuse, clock = Fuse(), MovingClock()
    limits = Limits(request_timeout_s=request_timeout_s)
    config = CollectorConfig(
        backend_url=backend_url,
        secrets=(SECRET,),
        data_folder=folder,
        port=port,
        heartbeat_s=HEARTBEAT_S,
        limits=limits,
        cut_media=True,
    )
    orders: dict[str, Order] = {CLOCK: clock.set}

    async def open_store() -> MeteredStore:
        store = await open_sqlite(folder, SystemClock(clock), limits.store, mark_lost=mark_lost)
        orders[ROOM] = room_of(store)
        return DyingStore(store, fuse)

    def on_state(state: DaemonState) -> None:
        if state.state == "ready":
            _say_ready(state.port)

    obeying = asyncio.create_task(obey(orders))
    await Daemon(config, open_store=open_store, wall_s=clock).run(stop, on_state)
    obeying.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.support.dying")
    roles = parser.add_subparsers(dest="role", required=True)
    ingest = roles.add_parser("ingest")
    ingest.add_argument("--dsn", required=True)
    ingest.add_argument("--port", type=int, default=0)
    ingest.add_argument("--secret", default=SECRET.decode())
    ingest.add_argument("--blobs", type=Path)
    collector = roles.add_parser("collector")
    collector.add_argument("--folder", type=Path, required=True)
    collector.add_argument("--backend-url", required=True)
    collector.add_argument("--port", type=int, default=0)
    collector.add_argument("--request-timeout-s", type=float, default=Limits().request_timeout_s)
    asked = parser.parse_args()
    configure(LogSettings(level="warning", format="json"))
    if asked.role == "ingest":
        secret = asked.secret.encode()
        run_until_stopped(lambda stop: _ingest(stop, asked.dsn, asked.port, secret, asked.blobs))
    else:
        url, timeout_s = asked.backend_url, asked.request_timeout_s
        run_until_stopped(lambda stop: _collector(stop, asked.folder, url, asked.port, timeout_s))


if __name__ == "__main__":
    main()
