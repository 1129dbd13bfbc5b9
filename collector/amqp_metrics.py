"""What the RabbitMQ doors tell Prometheus (docs/metrics.md); every family is there without a door too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from collector.amqp_state import AmqpState

_PREFIX: Final = "zaplake_collector_amqp_"
_Value: TypeAlias = Callable[[AmqpState], float | None]

_GAUGES: Final[dict[str, tuple[str, _Value]]] = {
    "consuming": ("1 while messages are taken", lambda state: state.consuming),
    "held_messages": ("Delivered and not yet acknowledged", lambda state: state.held),
    "queue_messages": ("Waiting in our queue at the last look", lambda state: state.waiting),
    "queue_consumers": ("Consumers of our queue at the last look; 1 is right", lambda state: state.consumers),
    "dead_messages": ("Waiting in our dead-letter queue at the last look", lambda state: state.dead),
    "drained_queues": ("Queues of the gateway that are emptied", lambda state: len(state.drained)),
}


def broker_metrics(states: Sequence[AmqpState], now: datetime) -> Iterator[Metric]:
    """All of one scrape."""
    messages = CounterMetricFamily(
        f"{_PREFIX}messages", "Messages by what became of them", labels=("gateway", "outcome")
    )
    connects = CounterMetricFamily(f"{_PREFIX}connects", "Times that consuming began", labels=("gateway",))
    age = GaugeMetricFamily(
        f"{_PREFIX}last_message_age_seconds", "Since the last message; absent before it", labels=("gateway",)
    )
    for state in states:
        for outcome in ("received", "redelivered", "acked", "refused"):
            messages.add_metric((state.gateway, outcome), getattr(state, outcome))
        connects.add_metric((state.gateway,), state.connects)
        if state.last_message_at is not None:
            age.add_metric((state.gateway,), max(0.0, (now - state.last_message_at).total_seconds()))
    yield from (messages, connects, age)
    for name, (text, value) in _GAUGES.items():
        gauge = GaugeMetricFamily(f"{_PREFIX}{name}", text, labels=("gateway",))
        for state in states:
            number = value(state)
            if number is not None:
                gauge.add_metric((state.gateway,), number)
        yield gauge
