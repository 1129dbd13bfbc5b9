"""How the demo's events come is said, and no password with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.amqp_config import AmqpConfig
from contracts.configured import GatewayConfig
from tests.collector.running import collector_config
from zaplake.demo import channels_told
from zaplake.trouble import Trouble


def test_without_a_broker_it_says_how_to_have_one(tmp_path: Path) -> None:
    assert "webhook only; with AMQP_URL" in channels_told(collector_config(tmp_path, "http://127.0.0.1:9"))


def test_with_a_broker_it_says_where_that_is(tmp_path: Path) -> None:
    amqp = AmqpConfig(gateway="evolution", url="amqp://me:a-long-password@broker.example:5673/vhost")
    told = channels_told(collector_config(tmp_path, "http://127.0.0.1:9", amqp=(amqp,)))
    assert told.endswith("by webhook and by RabbitMQ at amqp://broker.example:5673/vhost.")


def test_it_needs_an_evolution_gateway(tmp_path: Path) -> None:
    config = collector_config(
        tmp_path, "http://127.0.0.1:9", gateways=(GatewayConfig(name="bot", family="baileys"),)
    )
    with pytest.raises(Trouble, match="demo"):
        channels_told(config)
