"""Metrics of one registry as Prometheus reads them, and labels that stay few whoever posts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

METRICS_PATH: Final = "/metrics"
METRICS_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
LABEL_CHARS_MAX: Final = 100
OTHER: Final = "other"
"""What everything above a maximum is counted as."""
LATENCY_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class FewNames:
    """The first ``names_max`` names keep their own; every later one is ``other``."""

    def __init__(self, names_max: int) -> None:
        self._names_max = names_max
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        """``name``, or ``other``."""
        if name in self._known:
            return name
        if len(self._known) >= self._names_max:
            return OTHER
        self._known.add(name)
        return name


class Timings:
    """A histogram of seconds in plain numbers, for one thread: the library's own takes a lock a bucket."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Adds one."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def family(self, name: str, text: str) -> Metric:
        """As Prometheus has it: each bucket counts all that took no longer."""
        ends = (*map(str, self._bounds), "+Inf")
        below = zip(ends, accumulate(self._counts), strict=True)
        return HistogramMetricFamily(name, text, buckets=list(below), sum_value=self._sum)


def exposition(registry: CollectorRegistry) -> bytes:
    """The page in Prometheus' text format."""
    return generate_latest(_WithoutBirths(registry))


def label(text: str) -> str:
    """``text`` as a label's value: bounded, and without what UTF-8 cannot hold."""
    return text[:LABEL_CHARS_MAX].encode("utf-8", "replace").decode()


class _WithoutBirths(Collector):
    """A registry without the series that tell when each counter was made: as many again, and unread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
