"""A broker for the session, and what a test of the RabbitMQ door plays the gateway with."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.collector.amqp.playing import Rabbit
from tests.support.rabbitmq import Broker, NoBroker, broker_of_our_own, no_broker


@pytest.fixture(scope="session")
def own_broker() -> Iterator[Broker]:
    """One that may be stopped; whoever does starts it again."""
    try:
        with broker_of_our_own() as broker:
            yield broker
    except NoBroker as error:
        no_broker(str(error))


@pytest.fixture(scope="session")
def amqp_url(request: pytest.FixtureRequest) -> str:
    """AMQP_URL's broker, else our own."""
    given = os.environ.get("AMQP_URL")
    if given:
        return given
    broker: Broker = request.getfixturevalue("own_broker")
    return broker.url


@pytest.fixture
async def rabbit(amqp_url: str) -> AsyncIterator[Rabbit]:
    """Names of this test's own in that broker; deleted at the end."""
    async with Rabbit(amqp_url) as opened:
        yield opened


@pytest.fixture
async def own_rabbit(own_broker: Broker) -> AsyncIterator[Rabbit]:
    """The same in the broker that may be stopped."""
    async with Rabbit(own_broker.url) as opened:
        yield opened
