"""What ``zaplake collector status`` says of a RabbitMQ door."""

from __future__ import annotations

from datetime import UTC, datetime

from collector.amqp_state import AmqpState
from zaplake.cli.collector import broker_words


def words(**values: object) -> str:
    state = AmqpState(gateway="evolution", address="amqp://broker.example", queue="ours")
    for name, value in values.items():
        setattr(state, name, value)
    return broker_words(state.document())


def test_each_state_has_words_of_its_own() -> None:
    assert words() == "takes nothing: connecting"
    assert words(trouble="Connection refused") == "takes nothing: Connection refused"
    assert words(consuming=True) == "takes messages, none yet"
    at = datetime(2026, 1, 1, tzinfo=UTC)
    told = words(consuming=True, last_message_at=at, waiting=7, dead=2)
    assert "7 wait in ours" in told
    assert "2 in ours.dlq" in told
    assert words(consuming=True, trouble="the outbox takes nothing", held=5).endswith(
        "(holds 5: the outbox takes nothing)"
    )
