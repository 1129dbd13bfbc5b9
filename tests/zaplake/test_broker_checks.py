"""Doctor looks at the gateway's RabbitMQ, says what is wrong there, and changes nothing."""

from __future__ import annotations

from collector.amqp_config import DLQ, RETURNED, queue_arguments
from tests.support.rabbit import Rabbit
from tests.support.rabbitmq import free_port
from zaplake.broker_checks import check_brokers
from zaplake.finding import Finding
from zaplake.settings import Settings
from zaplake.sources import load_settings


def settings_of(rabbit: Rabbit) -> Settings:
    return load_settings(
        None,
        {
            "AMQP_URL": rabbit.url,
            "ZAPLAKE_AMQP_INSTANCES": rabbit.instance,
            "ZAPLAKE_AMQP_GLOBAL_EXCHANGE": "",
            "ZAPLAKE_AMQP_QUEUE": rabbit.queue,
        },
    )


async def found(settings: Settings) -> list[Finding]:
    return [finding async for finding in check_brokers(settings)]


async def test_without_a_broker_it_says_how_to_have_one() -> None:
    (finding,) = await found(load_settings(None, {}))
    assert finding.is_well
    assert "AMQP_URL" in finding.what


async def test_a_broker_that_is_away_is_named_without_its_password() -> None:
    url = f"amqp://me:a-long-password@127.0.0.1:{free_port()}/"
    (finding,) = await found(load_settings(None, {"AMQP_URL": url}))
    assert not finding.is_well
    assert "a-long-password" not in finding.what
    assert "127.0.0.1" in finding.what


async def test_what_is_missing_stays_missing(rabbit: Rabbit) -> None:
    for _ in range(2):
        answers, exchanges, queue = await found(settings_of(rabbit))
        assert answers.is_well
        assert f"no exchange {rabbit.instance}" in exchanges.what
        assert f"no queue {rabbit.queue}" in queue.what


async def test_a_queue_that_could_lose_messages_and_refused_messages_are_named(rabbit: Rabbit) -> None:
    await rabbit.publish(b"{}")
    await rabbit.declare(rabbit.queue, x_queue_type="quorum", x_delivery_limit=20)
    await rabbit.declare(rabbit.queue + DLQ, x_queue_type="quorum")
    await rabbit.put(rabbit.queue + DLQ, b"not json")
    answers, exchanges, unsafe, unread, dead = await found(settings_of(rabbit))
    assert answers.is_well
    assert exchanges.is_well
    assert "could lose messages" in unsafe.what
    assert "0 consumers" in unread.what
    assert "1 message in" in dead.what


async def test_all_is_well_with_a_collector(rabbit: Rabbit) -> None:
    await rabbit.publish(b"{}")
    safe = {name.replace("-", "_"): value for name, value in queue_arguments(rabbit.queue + RETURNED).items()}
    await rabbit.declare(rabbit.queue, **safe)
    async with rabbit.read_by_others(rabbit.queue):
        assert all(finding.is_well for finding in await found(settings_of(rabbit)))
