"""An operator's request, wherever the collector is: over its socket while it lives, else on its file."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from collector.alerts import Alerts
from collector.capture import Capture
from collector.config import CollectorConfig
from collector.control import NotRunning, ask
from collector.report import Reporter
from collector.spool import FOLDER_NAMES
from collector.verbs import Document, OnProgress, Verbs, unheard
from contracts.blobs import mark_lost
from outbox.blob_files import FOLDER_NAME
from outbox.clock import SystemClock
from outbox.sqlite import open_sqlite


class Session:
    """One conversation of many requests: over the socket of a living daemon, or on the file, kept open."""

    def __init__(self, config: CollectorConfig, verbs: Verbs | None) -> None:
        self._config, self._verbs = config, verbs

    @property
    def blob_folder(self) -> Path:
        """Where the files of its blobs are."""
        return self._config.data_folder / FOLDER_NAME

    @property
    def live(self) -> bool:
        """True when a daemon answers."""
        return self._verbs is None

    async def ask(self, wanted: Mapping[str, object], on_progress: OnProgress = unheard) -> Document:
        """One request.

        Raises VerbError, what the store raises, NotAnswering, NotRunning or ConnectionError (it ended).
        """
        if self._verbs is not None:
            return await self._verbs.run(wanted, on_progress)
        return await ask(self._config.socket_path, wanted, on_progress)


@contextlib.asynccontextmanager
async def session(config: CollectorConfig) -> AsyncIterator[Session]:
    """Finds out once whether a daemon lives.

    Raises NotAnswering (it hangs), StoreBusy and what the store raises at opening.
    """
    try:
        await ask(config.socket_path, {"verb": "status"}, unheard)
    except NotRunning:
        async with _opened(config) as verbs:
            yield Session(config, verbs)
    else:
        yield Session(config, None)


async def request(
    config: CollectorConfig, wanted: Mapping[str, object], on_progress: OnProgress
) -> tuple[Document, bool]:
    """The answer, and True when a living daemon gave it.

    Raises VerbError, NotAnswering, StoreBusy (a daemon has the file but does not listen yet, or not any more)
    and what the store raises.
    """
    try:
        return await ask(config.socket_path, wanted, on_progress), True
    except NotRunning:
        async with _opened(config) as verbs:
            return await verbs.run(wanted, on_progress), False


@contextlib.asynccontextmanager
async def _opened(config: CollectorConfig) -> AsyncIterator[Verbs]:
    clock = SystemClock()
    store = await open_sqlite(config.data_folder, clock, config.limits.store, mark_lost=mark_lost)
    try:
        alerts = Alerts(now=clock.now, kept_max=config.limits.alerts_kept_max)
        await alerts.load(store)
        capture = Capture(store=store, config=config, alerts=alerts, now=clock.now, on_put=lambda: None)
        await capture.open()
        reporter = Reporter(
            config=config,
            store=store,
            capture=capture,
            alerts=alerts,
            shipper=lambda: None,
            blob_shipper=lambda: None,
            brokers=(),
            now=clock.now,
        )
        verbs = Verbs(
            store=store,
            capture=capture,
            limits=config.limits,
            now=clock.now,
            spool=config.data_folder.joinpath(*FOLDER_NAMES),
            status=reporter.status,
            wake=lambda: None,
        )
        try:
            yield verbs
        finally:
            capture.close()
            await alerts.save(store)
    finally:
        await store.close()
