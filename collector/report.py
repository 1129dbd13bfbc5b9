"""What the collector says of itself: the status document, the heartbeat, and alerts on its depth."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from importlib import metadata
from typing import Final

from collector.alerts import Alerts
from collector.amqp_state import AmqpState
from collector.backlog import Backlog
from collector.capture import Capture
from collector.config import SHED_FROM_SHARE, CollectorConfig
from collector.metrics import Snapshot
from collector.verbs import Document
from contracts.heartbeat import (
    COUNTERS_MAX,
    INSTANCES_MAX,
    Counter,
    Coverage,
    Depth,
    Heartbeat,
    InstanceState,
)
from outbox.shipper import ShipperState
from outbox.store import Store, StoreStats

FILLING_OVER_SHARE: Final = 0.7
ROW_OUTCOMES: Final = ("stored", "conflict")
"""Outcomes of a put that make a row at the backend."""


class Reporter:
    """Reads the living parts; changes nothing but alerts."""

    def __init__(
        self,
        *,
        config: CollectorConfig,
        store: Store,
        capture: Capture,
        alerts: Alerts,
        shipper: Callable[[], ShipperState | None],
        blob_shipper: Callable[[], ShipperState | None],
        brokers: Sequence[AmqpState],
        now: Callable[[], datetime],
    ) -> None:
        self._config, self._store, self._capture = config, store, capture
        self._alerts, self._shipper, self._now = alerts, shipper, now
        self._brokers, self._blob_shipper = brokers, blob_shipper
        self._backlog = Backlog(config.limits, alerts)
        self._silent: set[str] = set()
        self._started_at = now()
        self._boot = secrets.token_hex(8)
        self._seq = 0
        self._version = package_version()

    async def status(self) -> Document:
        """All that ``zaplake collector status`` shows. Names no chat and no person."""
        stats = await self._store.stats()
        return {
            "name": self._config.name,
            "version": self._version,
            "epoch": self._store.epoch,
            "boot": self._boot,
            "uptime_s": self._uptime_s(),
            "backend_url": self._config.backend_url,
            "outbox": {
                "waiting": stats.waiting,
                "claimed": stats.claimed,
                "dead": stats.dead,
                "seen": stats.seen,
                "held": stats.held,
                "blobs_waiting": stats.blobs_waiting,
                "blobs_dead": stats.blobs_dead,
                "oldest_age_s": self._age_s(stats.oldest_at),
                "body_bytes": stats.bytes,
                "file_bytes": stats.file_bytes,
                "wal_bytes": stats.wal_bytes,
                "full_share": round(self._share(stats), 4),
                "has_reserve": stats.has_reserve,
                "fsync_s": stats.fsync_s,
                "engine": stats.engine,
            },
            "shipper": _shipper_document(self._shipper()),
            "blob_shipper": _shipper_document(self._blob_shipper()),
            "rabbitmq": [broker.document() for broker in self._brokers],
            "totals": dict(self._capture.tally.totals),
            "bodies_in_flight_bytes": self._capture.spool.memory.bytes_used,
            "instances": [
                {
                    "gateway": source[0],
                    "instance": source[1],
                    "scope": self._capture.scopes.scope_of(source),
                    "state": seen.state,
                    "last_event_at": seen.last_event_at.isoformat(),
                }
                for source, seen in self._capture.instances.seen.items()
            ],
            "alerts": {"active": list(self._alerts.active()), "recent": self._alerts.recent()},
        }

    async def heartbeat(self, coverage: tuple[Coverage, ...] = ()) -> Heartbeat:
        """The next heartbeat (contract §8); its number grows with every call."""
        self._seq += 1
        stats = await self._store.stats()
        shipper = self._shipper()
        return Heartbeat(
            name=self._config.name,
            version=self._version,
            epoch=self._store.epoch,
            boot=self._boot,
            seq=self._seq,
            uptime_s=self._uptime_s(),
            depth=Depth(waiting=stats.waiting, claimed=stats.claimed, dead=stats.dead, held=stats.held),
            oldest_age_s=self._age_s(stats.oldest_at),
            last_verdict=shipper.last_verdict if shipper is not None else None,
            halted=shipper is not None and shipper.halted,
            halt_reason=shipper.halt_reason if shipper is not None else None,
            fsync_s=stats.fsync_s,
            disk_free_bytes=shutil.disk_usage(self._config.data_folder).free,
            counters=self._counters(),
            instances=self._instances(),
            brokers=tuple(broker.report() for broker in self._brokers),
            coverage=coverage,
        )

    async def metrics(self) -> bytes:
        """The page ``/metrics``."""
        stats = await self._store.stats()
        return self._capture.metrics.page(
            Snapshot(
                version=self._version,
                uptime_s=self._uptime_s(),
                stats=stats,
                oldest_age_s=self._age_s(stats.oldest_at),
                shipper=self._shipper(),
                brokers=self._brokers,
                now=self._now(),
                alerts=[str(alert["alert"]) for alert in self._alerts.active()],
            )
        )

    async def watch(self) -> None:
        """Raises and resolves the alerts on backlog and dead letters."""
        stats = await self._store.stats()
        shipper = self._shipper()
        self._backlog.look(
            waiting=stats.waiting,
            oldest_age_s=self._age_s(stats.oldest_at),
            last_failure=shipper.last_failure if shipper is not None else None,
        )
        self._watch_room(stats)
        self._watch_channels()
        if stats.dead:
            self._alerts.raise_("outbox.dead", detail=f"{stats.dead}: zaplake collector dead list")
        else:
            self._alerts.resolve("outbox.dead")
        if stats.blobs_dead:
            self._alerts.raise_("blobs.dead", detail=f"{stats.blobs_dead}: zaplake collector dead list")
        else:
            self._alerts.resolve("blobs.dead")

    def _watch_channels(self) -> None:
        """A RabbitMQ that is away has an alert of its own."""
        away = {broker.gateway for broker in self._brokers if not broker.consuming}
        told = {
            f"{gateway}/{instance} {channel}": f"{missed} came by the other door since the last one"
            for (gateway, instance), channel, missed in self._capture.silence.silent(self._now())
            if channel != "rabbitmq" or gateway not in away
        }
        for subject, detail in told.items():
            self._alerts.raise_("channel.silent", subject, detail)
        for subject in self._silent - told.keys():
            self._alerts.resolve("channel.silent", subject)
        self._silent = set(told)

    def _watch_room(self, stats: StoreStats) -> None:
        if stats.salvaged:
            self._alerts.raise_("outbox.corrupt", detail=stats.salvaged)
        share = self._share(stats)
        self._capture.shedder.feel(share if stats.has_reserve else max(share, 1.0))
        if share >= SHED_FROM_SHARE:
            detail = f"{share:.0%} of its limits: {stats.waiting} records, {stats.bytes} bytes wait"
            self._alerts.raise_("outbox.filling", detail=detail)
        elif share < FILLING_OVER_SHARE:
            self._alerts.resolve("outbox.filling")
        if stats.has_reserve:
            self._alerts.resolve("outbox.disk")
        else:
            detail = f"no room for the reserve of {self._config.limits.outbox_reserve_bytes} bytes"
            self._alerts.raise_("outbox.disk", detail=detail)
        if share < 1 and stats.has_reserve:
            for gateway in self._config.gateways:
                self._alerts.resolve("outbox.full", gateway.name)

    def _share(self, stats: StoreStats) -> float:
        return self._config.limits.store.share(stats.waiting, stats.bytes)

    def _counters(self) -> tuple[Counter, ...]:
        """The newest rows of the tally, as many as the wire takes: events that became a row."""
        counters = []
        for (hour, gateway, instance, channel), counts in reversed(self._capture.tally.rows.items()):
            count = sum(counts[outcome] for outcome in ROW_OUTCOMES)
            counters.append(
                Counter(gateway=gateway, instance=instance, hour=hour, channel=channel, count=count)
            )
            if len(counters) == COUNTERS_MAX:
                break
        return tuple(counters)

    def _instances(self) -> tuple[InstanceState, ...]:
        states = [
            InstanceState(
                gateway=source[0],
                instance=source[1],
                state=seen.state,
                state_at=seen.state_at.isoformat() if seen.state_at is not None else None,
                last_event_at=seen.last_event_at.isoformat(),
                kinds={kind: at.isoformat() for kind, at in seen.kinds.items()},
            )
            for source, seen in self._capture.instances.seen.items()
        ]
        return tuple(states[-INSTANCES_MAX:])

    def _uptime_s(self) -> float:
        return (self._now() - self._started_at).total_seconds()

    def _age_s(self, at: datetime | None) -> float | None:
        return None if at is None else max(0.0, (self._now() - at).total_seconds())


def _shipper_document(state: ShipperState | None) -> Document | None:
    if state is None:
        return None
    document: Document = asdict(state)
    document["next_probe_at"] = None if state.next_probe_at is None else state.next_probe_at.isoformat()
    return document


def package_version() -> str:
    """The installed release, or "unknown" when run from a bare checkout."""
    try:
        return metadata.version("zaplake")
    except metadata.PackageNotFoundError:
        return "unknown"
