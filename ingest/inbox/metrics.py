"""What one process of the inbox tells Prometheus (docs/metrics.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from asgi.exposition import LATENCY_BUCKETS_S, exposition
from ingest.inbox.batch import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far behind a consumer is; ``is_more`` when ``unread`` is only a lower bound."""

    unread: int
    is_more: bool
    oldest_s: float
    """Age of the oldest unread event; 0 when there is none."""
    failed: int
    dead: int


class InboxMetrics:
    """The metrics of one process in a registry of their own; labelled by consumer, which code names."""

    def __init__(self, consumers: Sequence[str]) -> None:
        self.registry = registry = CollectorRegistry()
        self._events = Counter(
            "zaplake_inbox_events",
            "Events that rules saw, by what became of them",
            ("consumer", "outcome"),
            registry=registry,
        )
        self._batch_s = Histogram(
            "zaplake_inbox_batch_seconds",
            "From the claim of some shards to the end of the COMMIT",
            ("consumer",),
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self._unread = Gauge(
            "zaplake_inbox_unread_events", "Events that wait for rules", ("consumer",), registry=registry
        )
        self._oldest_s = Gauge(
            "zaplake_inbox_oldest_age_seconds",
            "Age of the oldest event that waits",
            ("consumer",),
            registry=registry,
        )
        self._parked = Gauge(
            "zaplake_inbox_parked_events",
            "Events that a rule failed on, by state",
            ("consumer", "state"),
            registry=registry,
        )
        for consumer in consumers:
            for outcome in ("processed", "failed", "dead"):
                self._events.labels(consumer, outcome)
            self._batch_s.labels(consumer)

    def ran(self, consumer: str, outcome: Outcome, seconds: float) -> None:
        """Count one committed batch."""
        self._events.labels(consumer, "processed").inc(outcome.ran - outcome.failed)
        self._events.labels(consumer, "failed").inc(outcome.failed)
        self._events.labels(consumer, "dead").inc(outcome.dead)
        self._batch_s.labels(consumer).observe(seconds)

    def lags(self, consumer: str, lag: Lag) -> None:
        """What the watch read last."""
        self._unread.labels(consumer).set(lag.unread)
        self._oldest_s.labels(consumer).set(lag.oldest_s)
        self._parked.labels(consumer, "failed").set(lag.failed)
        self._parked.labels(consumer, "dead").set(lag.dead)

    def page(self) -> bytes:
        """Everything as text."""
        return exposition(self.registry)
