"""Which of the gateway's own queues are looked at, and what everything is called there."""

from __future__ import annotations

from collector.amqp_config import EVENTS, AmqpConfig
from collector.amqp_drain import FIRST_EVENT_S, LOOK_AGAIN_S, NAMES_MAX, GatewayQueues

AMQP = AmqpConfig(gateway="evolution", url="amqp://broker.example", instances=("loja",), prefix="evo")
CALL = ("loja", "call")


def test_queues_are_called_as_the_gateway_calls_them() -> None:
    assert AMQP.gateway_queue("loja", "group-participants.update") == "loja.group-participants.update"
    assert AMQP.gateway_queue("evolution_exchange", "call") == "evo.call"
    bare = AmqpConfig(gateway="evolution", url="amqp://broker.example")
    assert bare.gateway_queue("evolution_exchange", "call") == "call"
    assert (AMQP.instance_of("loja"), AMQP.instance_of("evolution_exchange")) == ("loja", None)


def test_all_are_looked_at_first_and_each_again_only_when_there_is_a_reason() -> None:
    queues = GatewayQueues(AMQP, 0)
    assert len(queues.due(0)) == len(EVENTS) * 2
    assert queues.due(1) == {}
    assert "loja.call" in queues.due(LOOK_AGAIN_S)
    queues.absent(CALL)
    assert "loja.call" not in queues.due(LOOK_AGAIN_S * 2)
    queues.heard(CALL, 1000)
    assert "loja.call" not in queues.due(1000)
    assert queues.due(1000 + FIRST_EVENT_S)["loja.call"] == CALL


def test_what_others_publish_makes_no_names_and_the_names_are_bounded() -> None:
    queues = GatewayQueues(AMQP, 0)
    queues.heard(("another-exchange", "call"), 0)
    for number in range(NAMES_MAX + 10):
        queues.heard(("loja", f"event.{number}"), 0)
    due = queues.due(FIRST_EVENT_S)
    assert len(due) == NAMES_MAX
    assert "another-exchange.call" not in due
