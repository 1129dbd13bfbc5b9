"""What the collector tells Prometheus (docs/metrics.md): names of instances, never of chats or people."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from asgi.exposition import LATENCY_BUCKETS_S, OTHER, FewNames, Timings, exposition, label
from collector.amqp_metrics import broker_metrics
from collector.amqp_state import AmqpState
from outbox.shipper import ShipperState
from outbox.store import StoreStats

INSTANCES_LABELLED_MAX: Final = 200
"""Instances with a label of their own; further ones are ``other``."""

_Source: TypeAlias = tuple[str, str, str, str]
"""(channel, gateway, instance, outcome)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is read at the moment of a scrape."""

    version: str
    uptime_s: float
    stats: StoreStats
    oldest_age_s: float | None
    shipper: ShipperState | None
    brokers: Sequence[AmqpState] = ()
    now: datetime
    alerts: Sequence[str]
    """The name of each alert that lasts."""


class CollectorMetrics:
    """The metrics of one collector, for the loop's thread. Counting is adding to a plain number."""

    def __init__(self) -> None:
        self.commit_s = Timings(LATENCY_BUCKETS_S)
        self._events: dict[_Source, int] = {}
        self._answers: dict[int, int] = {}
        self._covered: dict[tuple[str, str, str], int] = {}
        self._instances = FewNames(INSTANCES_LABELLED_MAX)

    def count(self, channel: str, gateway: str, instance: str, counts: Mapping[str, int]) -> None:
        """Adds what became of the events of one body."""
        for outcome, count in counts.items():
            key = (channel, gateway, instance, outcome)
            known = self._events.get(key)
            if known is None:
                key = (channel, gateway, self._label(gateway, instance), outcome)
                known = self._events.get(key, 0)
            self._events[key] = known + count

    def cover(self, gateway: str, instance: str, channels: Sequence[str], count: int) -> None:
        """Adds records that exactly these channels brought."""
        key = (gateway, self._label(gateway, instance), "+".join(channels))
        self._covered[key] = self._covered.get(key, 0) + count

    def answered(self, status: int) -> None:
        """Counts one answer of the door."""
        self._answers[status] = self._answers.get(status, 0) + 1

    def page(self, snapshot: Snapshot) -> bytes:
        """Everything as text, with ``snapshot`` for what is not counted as it happens."""
        registry = CollectorRegistry()
        registry.register(_Page(self, snapshot))
        return exposition(registry)

    def counted(self) -> Iterator[Metric]:
        """What was counted as it happened."""
        events = CounterMetricFamily(
            "zaplake_collector_events",
            "Events that came in, by what became of them",
            labels=("channel", "gateway", "instance", "outcome"),
        )
        for (channel, gateway, instance, outcome), count in self._events.items():
            events.add_metric((channel, gateway, instance, outcome), count)
        yield events
        answers = CounterMetricFamily("zaplake_collector_answers", "Answers of the door", labels=("status",))
        for status, count in self._answers.items():
            answers.add_metric((str(status),), count)
        yield answers
        covered = CounterMetricFamily(
            "zaplake_collector_channel_records",
            "Records by the channels that brought them, after the grace",
            labels=("gateway", "instance", "channels"),
        )
        for names, count in self._covered.items():
            covered.add_metric(names, count)
        yield covered
        yield self.commit_s.family(
            "zaplake_collector_commit_seconds",
            "From handing records to the outbox until they are durable, fsync included",
        )

    def _label(self, gateway: str, instance: str) -> str:
        """What an instance is counted as; most are as they are called, and looked up without asking here."""
        shown = label(instance)
        return OTHER if self._instances.of(f"{gateway}/{shown}") == OTHER else shown


class _Page(Collector):
    """One scrape."""

    def __init__(self, metrics: CollectorMetrics, snapshot: Snapshot) -> None:
        self._metrics, self._snapshot = metrics, snapshot

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics.counted()
        yield from _process(self._snapshot)
        yield from _outbox(self._snapshot)
        yield from _shipping(self._snapshot.shipper)
        yield from broker_metrics(self._snapshot.brokers, self._snapshot.now)


def _process(snapshot: Snapshot) -> Iterator[Metric]:
    info = GaugeMetricFamily("zaplake_collector_info", "Always 1; the release", labels=("version",))
    info.add_metric((snapshot.version,), 1)
    yield info
    yield GaugeMetricFamily(
        "zaplake_collector_uptime_seconds", "Since the start of the process", snapshot.uptime_s
    )
    alerts = GaugeMetricFamily("zaplake_collector_alerts", "Alerts that last, by name", labels=("alert",))
    for name, count in Counts(snapshot.alerts).items():
        alerts.add_metric((name,), count)
    yield alerts


def _outbox(snapshot: Snapshot) -> Iterator[Metric]:
    stats = snapshot.stats
    depth = GaugeMetricFamily(
        "zaplake_collector_outbox_records", "Records in the outbox by state", labels=("state",)
    )
    for state in ("waiting", "claimed", "dead", "seen", "held"):
        depth.add_metric((state,), getattr(stats, state))
    yield depth
    blobs = GaugeMetricFamily("zaplake_collector_outbox_blobs", "Blobs by state", labels=("state",))
    blobs.add_metric(("waiting",), stats.blobs_waiting)
    blobs.add_metric(("dead",), stats.blobs_dead)
    yield blobs
    yield GaugeMetricFamily(
        "zaplake_collector_outbox_oldest_age_seconds",
        "Age of the oldest waiting record; 0 when none waits",
        snapshot.oldest_age_s or 0.0,
    )
    yield GaugeMetricFamily("zaplake_collector_outbox_body_bytes", "Bodies and blobs that wait", stats.bytes)
    yield GaugeMetricFamily(
        "zaplake_collector_outbox_file_bytes",
        "Outbox on disk, its write-ahead log included",
        stats.file_bytes,
    )
    yield GaugeMetricFamily("zaplake_collector_outbox_wal_bytes", "Write-ahead log on disk", stats.wal_bytes)
    yield GaugeMetricFamily(
        "zaplake_collector_outbox_has_reserve",
        "0 while the disk has no room for the reserve, hence for anything new",
        stats.has_reserve,
    )
    if stats.fsync_s is not None:
        yield GaugeMetricFamily(
            "zaplake_collector_outbox_fsync_seconds",
            "One durable write, measured at the start",
            stats.fsync_s,
        )


def _shipping(state: ShipperState | None) -> Iterator[Metric]:
    if state is None:
        return
    ended = CounterMetricFamily(
        "zaplake_collector_shipped_records", "Verdicts on records that were sent", labels=("verdict",)
    )
    ended.add_metric(("delivered",), state.delivered)
    ended.add_metric(("dead",), state.dead)
    ended.add_metric(("retry",), state.delayed)
    yield ended
    yield CounterMetricFamily(
        "zaplake_collector_shipping_requests", "Requests to the backend that carried records", state.requests
    )
    yield GaugeMetricFamily(
        "zaplake_collector_shipping_in_flight", "Such requests that are on their way", state.in_flight
    )
    yield GaugeMetricFamily(
        "zaplake_collector_shipping_halted",
        "1 while shipping is halted until somebody repairs the cause",
        state.halted,
    )
    yield GaugeMetricFamily(
        "zaplake_collector_shipping_paused",
        "1 while the backend is away and one probe at a time is sent",
        state.next_probe_at is not None,
    )
