"""The demo: a simulated Evolution gateway tells one story by webhook, and by RabbitMQ where there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from collector.amqp_config import AmqpConfig
from collector.config import CollectorConfig
from contracts.configured import GatewayConfig
from simulator.broker import Publisher
from simulator.gateway import Gateway, paced
from simulator.story import Webhook, carried, disturbed, webhooks
from zaplake.trouble import Trouble
from zaplake.webhook import TOKEN_HEADER

INSTANCES: Final = 3
DISTURBED_SHARE: Final = 0.15
"""Of the webhooks are repeated, and as many arrive late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """How the simulated gateway behaves. ``drop_share`` of its events come by one of both channels only."""

    seed: int
    per_second: float
    drop_share: float = 0.0


def channels_told(config: CollectorConfig) -> str:
    """For people: how the demo's events come."""
    gateway, amqp = _gateway(config)
    if amqp is None:
        return f"Demo of {gateway.name}: by webhook only; with AMQP_URL it publishes to RabbitMQ too."
    return f"Demo of {gateway.name}: by webhook and by RabbitMQ at {amqp.address}."


async def simulate(demo: Demo, config: CollectorConfig, collector_url: str) -> None:
    """Runs until it is cancelled. Raises Trouble when no gateway is of the family evolution."""
    gateway, amqp = _gateway(config)
    start_at = datetime.now(UTC)

    def story(channel: Literal["webhook", "rabbitmq"]) -> Iterator[Webhook]:
        told = webhooks(demo.seed, instances=INSTANCES, start_at=start_at)
        drop_share = demo.drop_share if amqp is not None else 0.0
        return carried(told, channel, seed=demo.seed, drop_share=drop_share)

    headers = {TOKEN_HEADER: gateway.tokens[0]} if gateway.tokens else {}
    sent = disturbed(story("webhook"), demo.seed, repeat_share=DISTURBED_SHARE, delay_share=DISTURBED_SHARE)
    sender = Gateway(f"{collector_url}/gateways/{gateway.name}", seed=demo.seed, headers=headers)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sender.run(paced(sent, demo.per_second)), name="demo webhooks")
        if amqp is not None:
            publisher = Publisher(
                amqp.url, instances=amqp.instances, global_exchange=amqp.global_exchange, prefix=amqp.prefix
            )
            tasks.create_task(publisher.run(paced(story("rabbitmq"), demo.per_second)), name="demo broker")


def _gateway(config: CollectorConfig) -> tuple[GatewayConfig, AmqpConfig | None]:
    gateway = next((gateway for gateway in config.gateways if gateway.family == "evolution"), None)
    if gateway is None:
        raise Trouble(
            "the demo is an Evolution gateway, but none is configured", "add one, or leave --demo out"
        )
    return gateway, next((amqp for amqp in config.amqp if amqp.gateway == gateway.name), None)
