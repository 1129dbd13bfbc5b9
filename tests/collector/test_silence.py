"""One of two doors that is silent while the other one speaks is noticed, per instance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from collector.amqp_config import AmqpConfig
from collector.silence import EVENTS_MIN, Silence, silence_of
from tests.collector.running import collector_config

START = datetime(2026, 1, 1, tzinfo=UTC)
LOJA, OTHER = ("evolution", "loja"), ("evolution", "other")


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def silence(tmp_path: Path) -> Silence:
    amqp = AmqpConfig(gateway="evolution", url="amqp://broker.example", instances=("loja",))
    return silence_of(collector_config(tmp_path, "http://127.0.0.1:9", amqp=(amqp,)))


def test_a_broker_that_never_brings_a_configured_instance_is_silent(tmp_path: Path) -> None:
    ears = silence(tmp_path)
    for number in range(EVENTS_MIN):
        assert list(ears.silent(at(number))) == []
        ears.heard(LOJA, "webhook", at(number))
    assert list(ears.silent(at(9.9))) == []
    assert list(ears.silent(at(10))) == [(LOJA, "rabbitmq", EVENTS_MIN)]
    ears.heard(LOJA, "rabbitmq", at(11))
    assert list(ears.silent(at(60))) == []


def test_a_door_that_was_never_heard_and_is_not_configured_is_not_missed(tmp_path: Path) -> None:
    ears = silence(tmp_path)
    for number in range(50):
        ears.heard(OTHER, "webhook", at(number))
        ears.heard(("waha", "default"), "webhook", at(number))
    for number in range(50):
        ears.heard(LOJA, "rabbitmq", at(number))
    assert list(ears.silent(at(100))) == []


def test_a_webhook_that_ceased_is_silent_and_few_events_prove_nothing(tmp_path: Path) -> None:
    ears = silence(tmp_path)
    ears.heard(OTHER, "webhook", at(0))
    for number in range(EVENTS_MIN - 1):
        ears.heard(OTHER, "rabbitmq", at(number))
    assert list(ears.silent(at(100))) == []
    ears.heard(OTHER, "jsonl", at(100))
    ears.heard(OTHER, "rabbitmq", at(100))
    assert list(ears.silent(at(100))) == [(OTHER, "webhook", EVENTS_MIN)]


def test_the_memory_is_bounded(tmp_path: Path) -> None:
    ears = silence(tmp_path)
    ears.instances_max = 3
    for name in "abcdef":
        for minute in range(EVENTS_MIN + 1):
            ears.heard(("evolution", name), "rabbitmq" if minute == 0 else "webhook", at(minute))
    assert [source[1] for source, _, _ in ears.silent(at(100))] == ["d", "e", "f"]
