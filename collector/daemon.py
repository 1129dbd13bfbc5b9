"""The collector's process: one task group; the doors close first and the store last."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import structlog

from asgi.server import HttpServer
from collector.alerts import Alerts, OnAlert, nobody
from collector.backend import Backend
from collector.capture import Capture
from collector.config import CollectorConfig
from collector.control import serving
from collector.door import Door
from collector.heartbeat import keep_beating
from collector.meter import LossMeter
from collector.report import Reporter
from collector.shippers import Shippers
from collector.spool import FOLDER_NAMES
from collector.verbs import Document, Verbs
from contracts.blobs import mark_lost
from outbox.clock import SystemClock
from outbox.dead_archive import DeadArchive
from outbox.janitor import Janitor, JanitorConfig
from outbox.metering import MeteredStore
from outbox.sqlite import open_sqlite
from outbox.store import StoreError

if TYPE_CHECKING:
    from collector.amqp_door import AmqpDoor

_log = structlog.get_logger("collector.daemon")


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonState:
    """What the daemon tells whoever started it. ``ready`` is said once both doors accept."""

    state: Literal["ready", "stopping", "stopped"]
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What one run is made of."""

    store: MeteredStore
    alerts: Alerts
    backend: Backend
    shippers: Shippers
    capture: Capture
    meter: LossMeter
    reporter: Reporter
    verbs: Verbs
    server: HttpServer
    brokers: tuple[AmqpDoor, ...]


class Daemon:
    """One collector. ``run`` returns when it was asked to stop, and raises when one of its tasks died."""

    def __init__(
        self,
        config: CollectorConfig,
        *,
        open_store: Callable[[], Awaitable[MeteredStore]] | None = None,
        on_alert: OnAlert = nobody,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """``open_store`` replaces the SQLite file in the data folder; ``on_alert`` is told every alert.

        ``wall_s``: seconds since 1970, by the clock of the machine.
        """
        self._config, self._on_alert, self._wall_s = config, on_alert, wall_s
        self._clock = SystemClock(wall_s)
        self._open_store = open_store or self._open_sqlite
        self._reporter: Reporter | None = None

    async def status(self) -> Document:
        """The status document; only while it runs."""
        assert self._reporter is not None, "run comes first"
        return await self._reporter.status()

    async def run(self, stop: asyncio.Event, on_state: Callable[[DaemonState], None]) -> None:
        """Runs until ``stop``: doors close first, then answers on their way are awaited, then the store.

        Raises what the store raises when it cannot be opened, OSError when an address is taken, and an
        ExceptionGroup when a task died; every acknowledged event is in the store whatever happens.
        """
        store = await self._open_store()
        try:
            async with Backend(self._config) as backend:
                parts = self._assemble(store, backend)
                await parts.alerts.load(store)
                await parts.capture.open()
                self._reporter = parts.reporter
                port = await self._serve(parts, stop, on_state)
        finally:
            await store.close()
        on_state(DaemonState(state="stopped", port=port))

    def _wall_now(self) -> datetime:
        """What is written on an event and held against a token: a clock that was set right counts at once.

        The engine's own clock never goes back; if it was ahead at the start, it stays ahead until the next.
        """
        return datetime.fromtimestamp(self._wall_s(), UTC)

    async def _open_sqlite(self) -> MeteredStore:
        config = self._config
        return await open_sqlite(config.data_folder, self._clock, config.limits.store, mark_lost=mark_lost)

    def _brokers(self, store: MeteredStore, capture: Capture, alerts: Alerts) -> tuple[AmqpDoor, ...]:
        if not self._config.amqp:
            return ()
        from collector.amqp_door import amqp_doors  # half a second to load, for those who have a broker

        return amqp_doors(self._config, store=store, capture=capture, alerts=alerts, now=self._wall_now)

    def _assemble(self, store: MeteredStore, backend: Backend) -> _Parts:
        config, now, limits = self._config, self._clock.now, self._config.limits
        alerts = Alerts(
            now=now,
            kept_max=limits.alerts_kept_max,
            repeat_s=limits.alert_repeat_s,
            on_alert=self._on_alert,
        )
        shippers = Shippers(config, store=store, backend=backend, clock=self._clock, alerts=alerts)
        capture = Capture(store=store, config=config, alerts=alerts, now=now, on_put=shippers.wake)
        meter = LossMeter(store, limits, metrics=capture.metrics, now=now)
        brokers = self._brokers(store, capture, alerts)
        reporter = Reporter(
            config=config,
            store=store,
            capture=capture,
            alerts=alerts,
            shipper=shippers.events.state,
            blob_shipper=shippers.blobs.state,
            brokers=[broker.state for broker in brokers],
            now=now,
        )
        verbs = Verbs(
            store=store,
            capture=capture,
            limits=limits,
            now=self._wall_now,
            spool=config.data_folder.joinpath(*FOLDER_NAMES),
            status=reporter.status,
            wake=shippers.wake,
        )
        server = HttpServer(
            Door(
                capture=capture,
                config=config,
                alerts=alerts,
                status=reporter.status,
                metrics=reporter.metrics,
                now=self._wall_now,
            ),
            host=config.host,
            port=config.port,
            backlog=limits.accept_backlog,
            keep_alive_s=limits.keep_alive_s,
            limit_concurrency=limits.connections_max,
        )
        return _Parts(
            store=store,
            alerts=alerts,
            backend=backend,
            shippers=shippers,
            capture=capture,
            meter=meter,
            reporter=reporter,
            verbs=verbs,
            server=server,
            brokers=brokers,
        )

    async def _serve(
        self, parts: _Parts, stop: asyncio.Event, on_state: Callable[[DaemonState], None]
    ) -> int:
        """Everything at work until ``stop``; returns the door's port."""
        stop_shippers = asyncio.Event()
        try:
            port = await parts.server.start()
            async with serving(self._config.socket_path, parts.verbs), asyncio.TaskGroup() as tasks:
                shipping = [
                    tasks.create_task(shipper.run(stop_shippers), name="shipper")
                    for shipper in (parts.shippers.events, parts.shippers.blobs)
                ]
                loops = [tasks.create_task(loop) for loop in self._loops(parts)]
                door = tasks.create_task(_watched(parts.server, stop), name="door")
                brokers = [tasks.create_task(broker.run(stop), name="amqp") for broker in parts.brokers]
                on_state(DaemonState(state="ready", port=port))
                await stop.wait()
                on_state(DaemonState(state="stopping", port=port))
                await parts.server.stop(self._config.limits.stop_grace_s)
                await door
                await _ended(brokers, self._config.limits.stop_grace_s)
                stop_shippers.set()
                await asyncio.gather(*shipping)
                for loop in loops:
                    loop.cancel()
        finally:
            await parts.server.stop(0)
            parts.capture.close()
            with contextlib.suppress(StoreError):
                await parts.alerts.save(parts.store)
                await parts.capture.instances.save()
        return port

    def _loops(self, parts: _Parts) -> list[Coroutine[None, None, None]]:
        archive = DeadArchive(self._config.data_folder)
        janitor = Janitor(
            parts.store,
            self._clock,
            JanitorConfig(),
            export=archive,
            export_blob=archive.keep_blob,
            on_failure=lambda reason: parts.alerts.raise_("janitor.failing", detail=reason, fades=True),
        )
        return [
            janitor.run(asyncio.Event()),
            parts.alerts.keep_saved(parts.store),
            self._keep_house(parts),
            keep_beating(
                self._config.heartbeat_s,
                backend=parts.backend,
                reporter=parts.reporter,
                capture=parts.capture,
                meter=parts.meter,
                alerts=parts.alerts,
                skew_s_max=self._config.limits.clock_skew_alert_s,
                now=self._wall_now,
            ),
        ]

    async def _keep_house(self, parts: _Parts) -> None:
        """Runs for ever: ends storms, saves states, counts channels, watches depth, fades alerts.

        It retries a failing store.
        """
        while True:
            await asyncio.sleep(self._config.limits.housekeeping_s)
            parts.alerts.fade()
            parts.alerts.repeat()
            parts.capture.prune_counts()
            try:
                await parts.capture.release_storms()
                await parts.capture.instances.save()
                await parts.meter.sweep()
                await parts.reporter.watch()
            except StoreError as error:
                _log.warning("housekeeping.failed", error=type(error).__name__)


async def _ended(tasks: Sequence[asyncio.Task[None]], seconds_max: float) -> None:
    """Waits until they ended by themselves, and cancels what did not in time."""
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds_max)
        for task in late:
            task.cancel()


async def _watched(server: HttpServer, stop: asyncio.Event) -> None:
    """A door that ended by itself ends the process."""
    await server.wait()
    if not stop.is_set():
        raise RuntimeError("the door closed by itself")
