"""An operator's request, wherever the collector is: over its socket while it lives, else on its file."""

from __future__ import annotations

from collections.abc import Mapping

from collector.alerts import Alerts
from collector.capture import Capture
from collector.config import CollectorConfig
from collector.control import NotRunning, ask
from collector.report import Reporter
from collector.verbs import Document, OnProgress, Verbs
from outbox.clock import SystemClock
from outbox.sqlite import open_sqlite


async def request(
    config: CollectorConfig, wanted: Mapping[str, object], on_progress: OnProgress
) -> tuple[Document, bool]:
    """The answer, and True when a living daemon gave it.

    Raises VerbError, StoreBusy (a daemon has the file but does not listen yet, or not any more) and what the
    store raises.
    """
    try:
        return await ask(config.socket_path, wanted, on_progress), True
    except NotRunning:
        return await _directly(config, wanted, on_progress), False


async def _directly(
    config: CollectorConfig, wanted: Mapping[str, object], on_progress: OnProgress
) -> Document:
    clock = SystemClock()
    store = await open_sqlite(config.data_folder, clock, config.limits.store)
    try:
        alerts = Alerts(now=clock.now, kept_max=config.limits.alerts_kept_max)
        await alerts.load(store)
        capture = Capture(store=store, config=config, alerts=alerts, now=clock.now, on_put=lambda: None)
        await capture.open()
        reporter = Reporter(
            config=config, store=store, capture=capture, alerts=alerts, shipper=lambda: None, now=clock.now
        )
        verbs = Verbs(
            store=store,
            capture=capture,
            limits=config.limits,
            now=clock.now,
            status=reporter.status,
            wake=lambda: None,
        )
        try:
            return await verbs.run(wanted, on_progress)
        finally:
            capture.close()
            await alerts.save(store)
    finally:
        await store.close()
