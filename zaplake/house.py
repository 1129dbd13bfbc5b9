"""Everything on one machine in one task group: ingest, collector, and the simulated gateway of the demo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

import structlog

from collector.config import CollectorConfig
from collector.daemon import Daemon, DaemonState
from ingest.config import IngestConfig
from ingest.inbox.runner import Runner
from ingest.row import CommitBatch
from ingest.service import same_commit, serve
from outbox.store import StoreError
from zaplake.announcing import announcing_of_backend, announcing_of_collector
from zaplake.demo import Demo, simulate
from zaplake.embedded import EmbeddedPostgres
from zaplake.figures import UNREADABLE, Commits, Figures, LookAt, figures_of
from zaplake.process import naming_the_port
from zaplake.rules import consumers_of
from zaplake.settings import Settings
from zaplake.trouble import Trouble
from zaplake.wiring import collector_config, direct_config, inbox_config, ingest_config

KEEP_POSTGRES_S: Final = 1.0
STOP_S_MAX: Final = 40.0
"""Doors and workers have shorter limits of their own; above this the stop is called failed."""

StateName: TypeAlias = Literal["ready", "postgres_restarted", "stopping"]
_log = structlog.get_logger("zaplake.house")


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where both doors accept."""

    ingest: str
    collector: str


class Watcher(Protocol):
    """Who is told what happens."""

    def changed(self, state: StateName, addresses: Addresses) -> None:
        """A state change; ``ready`` comes once, first, when both doors accept."""

    async def watch(self, look: LookAt, addresses: Addresses) -> None:
        """Shows what happens, for as long as everything runs."""


async def run_house(
    settings: Settings,
    *,
    dsn: str,
    secrets: tuple[bytes, ...],
    watcher: Watcher,
    stop: asyncio.Event,
    postgres: EmbeddedPostgres | None = None,
    demo: Demo | None = None,
) -> None:
    """Runs until ``stop``; a part that dies ends all. Stops doors first, the collector before the backend."""
    ingest_stop, collector_stop, commits = asyncio.Event(), asyncio.Event(), Commits()
    work_stop = asyncio.Event()
    async with announcing_of_collector(settings) as tell, asyncio.TaskGroup() as tasks:
        port = asyncio.get_running_loop().create_future()
        ingest = tasks.create_task(
            _ingest(
                settings,
                ingest_config(settings, dsn=dsn, secrets=secrets),
                commits=commits,
                stop=ingest_stop,
                on_ready=port.set_result,
            )
        )
        ingest_url = url_of(settings.ingest.host, await port)
        config = collector_config(settings, secrets=secrets, backend_url=ingest_url)
        daemon, opened = Daemon(config, on_alert=tell), asyncio.get_running_loop().create_future()
        collector = tasks.create_task(_collector(daemon, config, collector_stop, opened.set_result))
        inbox = tasks.create_task(_inbox(settings, dsn, work_stop))
        addresses = Addresses(ingest=ingest_url, collector=url_of(config.host, await opened))
        watcher.changed("ready", addresses)

        async def look() -> Figures:
            try:
                return figures_of(await daemon.status(), commits.counts)
            except StoreError:  # the collector answers 503 meanwhile; looking on must not end it
                return UNREADABLE

        others: list[Coroutine[Any, Any, None]] = [watcher.watch(look, addresses)]
        if postgres is not None:
            others.append(_keep(postgres, lambda: watcher.changed("postgres_restarted", addresses)))
        if demo is not None:
            others.append(simulate(demo, config, addresses.collector))
        running = [tasks.create_task(other) for other in others]
        await stop.wait()
        watcher.changed("stopping", addresses)
        for task in running:
            task.cancel()
        await _stop_in_turn((collector_stop, collector), (ingest_stop, ingest), (work_stop, inbox))


async def _stop_in_turn(*parts: tuple[asyncio.Event, asyncio.Task[None]]) -> None:
    """Doors first. Raises Trouble when that takes too long."""
    try:
        async with asyncio.timeout(STOP_S_MAX):
            for stop, task in parts:
                stop.set()
                await task
    except TimeoutError as error:
        raise Trouble(
            f"it did not stop within {STOP_S_MAX:.0f} s",
            "nothing that was acknowledged is lost; start it again",
        ) from error


def url_of(host: str, port: int) -> str:
    """Where a door on ``host`` is reached from this machine."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (compared, not listened on)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


async def run_backend(
    settings: Settings,
    config: IngestConfig,
    *,
    stop: asyncio.Event,
    on_ready: Callable[[int], None],
    around_commit: Callable[[CommitBatch], CommitBatch] = same_commit,
    reuse_port: bool = False,
) -> None:
    """The backend of these settings until ``stop``; its alerts are sent. Raises Trouble for a taken port."""
    host, port = settings.ingest.host, settings.ingest.port
    direct = direct_config(settings, secrets=config.secrets)
    with naming_the_port(host, port, "--http-port"):
        async with announcing_of_backend(settings) as tell:
            await serve(
                config,
                host=host,
                port=port,
                stop=stop,
                on_ready=on_ready,
                reuse_port=reuse_port,
                around_commit=around_commit,
                on_alert=tell,
                direct=direct,
            )


async def _ingest(
    settings: Settings,
    config: IngestConfig,
    *,
    commits: Commits,
    stop: asyncio.Event,
    on_ready: Callable[[int], None],
) -> None:
    await run_backend(settings, config, stop=stop, on_ready=on_ready, around_commit=commits.around)
    _must_be_asked(stop, "the backend")


async def _inbox(settings: Settings, dsn: str, stop: asyncio.Event) -> None:
    """The rules; without a door of their own, since ``up`` is one process and says how it is."""
    consumers = consumers_of(settings.work.consumers)
    await Runner(inbox_config(settings, dsn=dsn), consumers).run(stop)
    _must_be_asked(stop, "the inbox")


async def _collector(
    daemon: Daemon, config: CollectorConfig, stop: asyncio.Event, on_ready: Callable[[int], None]
) -> None:
    def told(state: DaemonState) -> None:
        if state.state == "ready":
            on_ready(state.port)

    with naming_the_port(config.host, config.port, "--collector-port"):
        await daemon.run(stop, told)
    _must_be_asked(stop, "the collector")


def _must_be_asked(stop: asyncio.Event, part: str) -> None:
    if not stop.is_set():
        raise RuntimeError(f"{part} ended by itself")


async def _keep(postgres: EmbeddedPostgres, on_restart: Callable[[], None]) -> None:
    """The doors answer 503 while it is away and heal by themselves; a failed restart is tried again."""
    while True:
        await asyncio.sleep(KEEP_POSTGRES_S)
        try:
            if await asyncio.to_thread(postgres.ensure_running):
                _log.warning("postgres.restarted")
                on_restart()
        except Trouble as trouble:
            _log.error("postgres.failed", what=trouble.what)
