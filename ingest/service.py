"""Opens everything one ingest process needs, and closes it in order: doors, writer, connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from asgi.server import HttpServer
from asgi.types import AsgiApp, Receive, Scope, Send
from contracts.envelope import BATCH_PATH, EVENT_PATH
from ingest.app import create_app
from ingest.blob_door import BLOB_ROOT
from ingest.blobs import Blobs, open_blobs
from ingest.calm import CalmConnection
from ingest.config import IngestConfig
from ingest.desk import LakeDesk, OnAlert, nobody
from ingest.direct.books import ScopeBook, TokenBook
from ingest.direct.config import DirectConfig
from ingest.direct.door import PATH as DIRECT_PATH
from ingest.direct.door import DirectDoor
from ingest.direct.gate import Gate
from ingest.direct.taking import Taker
from ingest.doors import Doors
from ingest.lane import Lane, log
from ingest.metrics import IngestMetrics
from ingest.row import CommitBatch
from ingest.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """An open ingest service. ``app`` is served by whoever holds it."""

    app: AsgiApp
    config: IngestConfig
    writer: Writer
    doors: Doors
    desk: LakeDesk
    metrics: IngestMetrics
    blobs: Blobs | None
    lanes: Sequence[Lane]
    calm: CalmConnection

    async def close(self) -> None:
        """Close the connections."""
        for lane in self.lanes:
            await lane.close()
        await self.desk.close()
        self.calm.drop()
        if self.blobs is not None:
            await self.blobs.ledger.close()

    async def drain(self) -> bool:
        """Answer 503 to new requests and wait for the accepted ones; False when that took too long."""
        self.desk.open = False
        if self.blobs is not None:
            self.blobs.door.open = False
        return await self.writer.drain(self.config.drain_s_max)


def same_commit(commit: CommitBatch) -> CommitBatch:
    """The lane's own commit, as it is."""
    return commit


def hot_paths_first(doors: Doors, direct: AsgiApp, blobs: AsgiApp | None, app: AsgiApp) -> AsgiApp:
    """The same application; the two hot paths skip the framework's routing, a fifth of a request's time.

    The doors of gateways and of blobs skip it too.
    """
    hot: dict[str, AsgiApp] = {EVENT_PATH: doors.event, BATCH_PATH: doors.batch}

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        handler = hot.get(path)
        if handler is None:
            if path.startswith(DIRECT_PATH):
                handler = direct
            else:
                handler = blobs if blobs is not None and path.startswith(BLOB_ROOT) else app
        await handler(scope, receive, send)

    return dispatch


def _direct_door(
    config: IngestConfig,
    direct: DirectConfig,
    *,
    calm: CalmConnection,
    doors: Doors,
    writer: Writer,
    desk: LakeDesk,
    metrics: IngestMetrics,
) -> DirectDoor:
    scopes = ScopeBook(calm, mapped=direct.accounts, on_changed=desk.scope_changed)
    tokens = TokenBook(calm, known_s_max=config.token_known_s_max, pause_s=config.token_look_pause_s)
    return DirectDoor(
        config,
        gate=Gate(config, direct.gateways, tokens, desk.token_refused),
        taker=Taker(config, direct, writer=writer, doors=doors, scopes=scopes, metrics=metrics),
        writer=writer,
        budget=doors.budget,
        metrics=metrics,
        now=lambda: datetime.now(UTC),
    )


async def _assemble(
    config: IngestConfig,
    around_commit: Callable[[CommitBatch], CommitBatch],
    on_alert: OnAlert,
    direct: DirectConfig,
) -> Service:
    """Everything made and nothing running yet."""
    desk = LakeDesk(config, on_alert)
    metrics = IngestMetrics()
    lanes = [
        Lane(config, number=number, on_scope_changed=desk.scope_changed, on_conflicts=metrics.conflicts.inc)
        for number in range(config.writer_connections)
    ]
    writer = Writer(config, [metrics.around(around_commit(lane.commit)) for lane in lanes])
    doors = Doors(config, writer, metrics)
    metrics.watch(queue_rows=lambda: writer.queued_rows, body_bytes=lambda: doors.budget.bytes_used)
    calm = CalmConnection(config, name="zaplake-ingest-direct")
    direct_door = _direct_door(
        config, direct, calm=calm, doors=doors, writer=writer, desk=desk, metrics=metrics
    )
    blobs = await asyncio.to_thread(open_blobs, config, doors.budget, metrics)
    return Service(
        app=hot_paths_first(
            doors,
            direct_door,
            None if blobs is None else blobs.door,
            cast("AsgiApp", create_app(config, doors=doors, desk=desk, metrics=metrics)),
        ),
        blobs=blobs,
        config=config,
        writer=writer,
        doors=doors,
        desk=desk,
        metrics=metrics,
        lanes=lanes,
        calm=calm,
    )


@asynccontextmanager
async def open_service(
    config: IngestConfig,
    *,
    around_commit: Callable[[CommitBatch], CommitBatch] = same_commit,
    on_alert: OnAlert = nobody,
    direct: DirectConfig | None = None,
) -> AsyncIterator[Service]:
    """Start the writer and the watch; at the end drain, stop them and close the connections.

    The database need not be there yet: requests get 503 until it is. ``around_commit`` wraps what each lane
    commits with; ``on_alert`` is told of alerts; ``direct`` is
    what the direct door knows besides its tokens. A background task that dies ends the caller's block too.
    """
    service = await _assemble(config, around_commit, on_alert, direct or DirectConfig())
    failure: Exception | None = None
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(service.writer.run()), tasks.create_task(service.desk.run())]
            if service.blobs is not None:
                running.append(tasks.create_task(service.blobs.run()))
            try:
                yield service
            except Exception as error:
                # Raised again below as it is: the group would wrap the caller's own error.
                failure = error
            finally:
                drained = await service.drain()
                log.info("ingest.drained", complete=drained)
                for task in running:
                    task.cancel()
        if failure is not None:
            raise failure
    finally:
        await service.close()


async def serve(
    config: IngestConfig,
    *,
    host: str,
    port: int,
    stop: asyncio.Event,
    on_ready: Callable[[int], None],
    reuse_port: bool = False,
    around_commit: Callable[[CommitBatch], CommitBatch] = same_commit,
    on_alert: OnAlert = nobody,
    direct: DirectConfig | None = None,
) -> None:
    """Run one ingest process until ``stop`` is set; ``on_ready`` gets the port once the door accepts.

    ``reuse_port`` lets N processes serve one port.
    """
    async with open_service(config, around_commit=around_commit, on_alert=on_alert, direct=direct) as service:
        server = HttpServer(
            service.app, host=host, port=port, limit_concurrency=config.requests_max, reuse_port=reuse_port
        )
        on_ready(await server.start())
        ended = asyncio.create_task(server.wait())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
            await service.drain()
        finally:
            stopped.cancel()
            await server.stop(config.drain_s_max)
        await ended
