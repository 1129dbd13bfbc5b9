"""What the collector tells Prometheus (docs/metrics.md): names of instances, never of chats or people."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from asgi.exposition import LATENCY_BUCKETS_S, OTHER, FewNames, exposition, label
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
    alerts: Sequence[str]
    """The name of each alert that lasts."""


class CollectorMetrics:
    """The metrics of one collector in a registry of their own; counting costs an increment."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._events = Counter(
            "zaplake_collector_events",
            "Events that came in, by what became of them",
            ("channel", "gateway", "instance", "outcome"),
            registry=self.registry,
        )
        self._answers = Counter(
            "zaplake_collector_answers", "Answers of the door", ("status",), registry=self.registry
        )
        self.commit_s = Histogram(
            "zaplake_collector_commit_seconds",
            "From handing records to the outbox until they are durable, fsync included",
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self._by_source: dict[_Source, Counter] = {}
        self._by_status: dict[int, Counter] = {}
        self._instances = FewNames(INSTANCES_LABELLED_MAX)
        self._now = _Now()
        self.registry.register(self._now)

    def count(self, channel: str, gateway: str, instance: str, counts: Mapping[str, int]) -> None:
        """Adds what became of the events of one body."""
        for outcome, count in counts.items():
            child = self._by_source.get((channel, gateway, instance, outcome))
            if child is None:
                child = self._child(channel, gateway, instance, outcome)
            child.inc(count)

    def answered(self, status: int) -> None:
        """Counts one answer of the door."""
        child = self._by_status.get(status)
        if child is None:
            child = self._by_status[status] = self._answers.labels(str(status))
        child.inc()

    def page(self, snapshot: Snapshot) -> bytes:
        """Everything as text, with ``snapshot`` for what is not counted as it happens."""
        self._now.snapshot = snapshot
        return exposition(self.registry)

    def _child(self, channel: str, gateway: str, instance: str, outcome: str) -> Counter:
        """The counter of one source; sources above the maximum share one, which is not remembered by name."""
        if self._instances.of(f"{gateway}/{instance}") == OTHER:
            instance = OTHER
        child = self._events.labels(channel, gateway, label(instance), outcome)
        self._by_source[channel, gateway, instance, outcome] = child
        return child


class _Now(Collector):
    """Turns the last snapshot into metrics."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None

    def collect(self) -> Iterator[Metric]:
        """Nothing before the first snapshot."""
        if self.snapshot is not None:
            yield from _process(self.snapshot)
            yield from _outbox(self.snapshot)
            yield from _shipping(self.snapshot.shipper)


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
    yield GaugeMetricFamily(
        "zaplake_collector_outbox_oldest_age_seconds",
        "Age of the oldest waiting record; 0 when none waits",
        snapshot.oldest_age_s or 0.0,
    )
    yield GaugeMetricFamily("zaplake_collector_outbox_body_bytes", "Bodies that wait", stats.bytes)
    yield GaugeMetricFamily(
        "zaplake_collector_outbox_file_bytes",
        "Outbox on disk, its write-ahead log included",
        stats.file_bytes,
    )
    yield GaugeMetricFamily("zaplake_collector_outbox_wal_bytes", "Write-ahead log on disk", stats.wal_bytes)


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
