"""What one ingest process tells Prometheus (docs/metrics.md); counted by commit and by problem."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from asgi.exposition import LATENCY_BUCKETS_S, FewNames, exposition, label
from ingest.problems import Kind
from ingest.row import CommitBatch, Committed, Row, RowRefusedError, UnavailableError

COLLECTORS_LABELLED_MAX: Final = 200
"""Collectors whose heartbeat age is told: the ones heard of last."""
GATEWAYS_LABELLED_MAX: Final = 200
GROUP_BUCKETS_ROWS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class IngestMetrics:
    """The metrics of one ingest process in a registry of their own; events cost one increment a commit."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        events = Counter(
            "zaplake_ingest_events", "Events by what became of them", ("outcome",), registry=registry
        )
        self._stored, self._duplicate, self._rejected = map(
            events.labels, ("stored", "duplicate", "rejected")
        )
        self.conflicts = Counter(
            "zaplake_ingest_conflicts", "Duplicates that said something else", registry=registry
        )
        self._problems = Counter(
            "zaplake_ingest_problems", "Requests answered with a problem", ("type",), registry=registry
        )
        self._facts = Counter(
            "zaplake_ingest_direct_facts",
            "Facts of the direct door by what became of them",
            ("gateway", "outcome"),
            registry=registry,
        )
        self._gateways = FewNames(GATEWAYS_LABELLED_MAX)
        commits = Counter("zaplake_ingest_commits", "Commits by outcome", ("outcome",), registry=registry)
        self._committed, self._refused, self._unavailable = map(
            commits.labels, ("committed", "refused", "unavailable")
        )
        self._commit_s = Histogram(
            "zaplake_ingest_commit_seconds",
            "From the statement to the end of its COMMIT",
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self._group_rows = Histogram(
            "zaplake_ingest_group_rows", "Rows in one commit", buckets=GROUP_BUCKETS_ROWS, registry=registry
        )
        self._queue_rows = Gauge(
            "zaplake_ingest_queue_rows", "Rows that wait for a commit", registry=registry
        )
        self._body_bytes = Gauge(
            "zaplake_ingest_body_bytes", "Bodies in flight, until they are committed", registry=registry
        )
        blobs = Counter(
            "zaplake_ingest_blobs", "Blobs by what became of them", ("outcome",), registry=registry
        )
        self._blobs = {fate: blobs.labels(fate.value) for fate in Committed}
        self._blob_bytes = Counter("zaplake_ingest_blob_bytes", "Bytes of blobs stored", registry=registry)
        self._ages = _HeartbeatAges()
        registry.register(self._ages)

    def watch(self, *, queue_rows: Callable[[], float], body_bytes: Callable[[], float]) -> None:
        """What is read at the moment of a scrape."""
        self._queue_rows.set_function(queue_rows)
        self._body_bytes.set_function(body_bytes)

    def around(self, commit: CommitBatch) -> CommitBatch:
        """``commit``, timed and counted after it returned."""

        async def counted(rows: Sequence[Row]) -> list[Committed]:
            started_s = time.perf_counter()
            try:
                fates = await commit(rows)
            except RowRefusedError:
                self._refused.inc()
                if len(rows) == 1:  # a larger group is tried again in halves
                    self._rejected.inc()
                raise
            except UnavailableError:
                self._unavailable.inc()
                raise
            self._commit_s.observe(time.perf_counter() - started_s)
            self._group_rows.observe(len(rows))
            self._committed.inc()
            stored = fates.count(Committed.STORED)
            self._stored.inc(stored)
            self._duplicate.inc(len(fates) - stored)
            return fates

        return counted

    def blob(self, fate: Committed, size: int) -> None:
        """Counts one blob that came to its end."""
        self._blobs[fate].inc()
        if fate is Committed.STORED:
            self._blob_bytes.inc(size)

    def rejected(self, events: int) -> None:
        """Adds lines of a batch that are no events."""
        self._rejected.inc(events)

    def direct(self, gateway: str, counts: Mapping[str, int]) -> None:
        """Adds what became of a body's facts."""
        name = self._gateways.of(label(gateway))
        for outcome, count in counts.items():
            self._facts.labels(name, outcome).inc(count)

    def problem(self, kind: Kind) -> None:
        """Counts one request that is answered with a problem."""
        self._problems.labels(kind.urn.rpartition(":")[2]).inc()

    def page(self, heartbeat_ages: Sequence[tuple[str, float]]) -> bytes:
        """Everything as text."""
        self._ages.read = heartbeat_ages
        return exposition(self.registry)


class _HeartbeatAges(Collector):
    """The ages that the last scrape read."""

    def __init__(self) -> None:
        self.read: Sequence[tuple[str, float]] = ()

    def collect(self) -> Iterator[Metric]:
        ages = GaugeMetricFamily(
            "zaplake_ingest_heartbeat_age_seconds", "Since a collector was last heard", labels=("collector",)
        )
        for collector, age_s in self.read:
            ages.add_metric((label(collector),), age_s)
        yield ages
