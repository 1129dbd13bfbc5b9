"""What ends a connection, a consumer or a queue, and how the door comes back without losing an event."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from collector.amqp_answers import BrokerGone
from collector.amqp_broker import Delivery, Link, Look, connected
from collector.amqp_config import DLQ, DLQ_ARGUMENTS, RETURNED
from collector.amqp_watch import MuteGuard
from tests.collector.amqp.test_door import (
    NO_BACKEND,
    broker_of,
    consuming,
    counted,
    over,
    raised,
    reaches,
    settled,
)
from tests.collector.running import collector_config, limits, message, running
from tests.support.rabbit import Rabbit
from tests.support.rabbitmq import Broker
from tests.support.relay import Relay, relay_to

AWAY_S = 20.0
LONG_AWAY_S = 120.0
QUICK = limits(amqp_watch_s=0.05, amqp_reconnect_s_max=0.5, amqp_disconnected_alert_s=0.1)


async def test_a_broker_that_was_away_loses_nothing_that_it_had(
    tmp_path: Path, own_broker: Broker, own_rabbit: Rabbit
) -> None:
    """Evolution publishes without delivery_mode: a classic queue would forget what waits at a restart."""
    rabbit = own_rabbit
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=QUICK)
    async with running(config):
        pass
    await rabbit.publish(*(message(number, rabbit.instance) for number in range(5)))
    await asyncio.to_thread(own_broker.run, "stop_app")
    back_at = asyncio.get_running_loop().time() + AWAY_S
    async with running(config) as collector:
        await raised(collector, "amqp.disconnected")
        assert (await collector.post("/gateways/evolution", message(99, rabbit.instance))).status_code == 200
        await asyncio.sleep(back_at - asyncio.get_running_loop().time())  # so long is the outage
        await asyncio.to_thread(own_broker.run, "start_app")
        await counted(collector, stored=6)
        await over(collector, "amqp.disconnected")


@pytest.mark.chaos
async def test_a_broker_killed_and_away_for_two_minutes_loses_nothing_that_it_had(
    tmp_path: Path, own_broker: Broker, own_rabbit: Rabbit
) -> None:
    rabbit = own_rabbit
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=QUICK)
    async with running(config) as collector:
        await consuming(collector)
        for number in range(500):
            await rabbit.publish(message(number, rabbit.instance))
        await asyncio.to_thread(own_broker.kill)
        await asyncio.sleep(LONG_AWAY_S)
        await asyncio.to_thread(own_broker.start)
        await rabbit.publish(*(message(number, rabbit.instance) for number in range(500, 1000)))
        async with asyncio.timeout(60):
            while (await collector.totals()).get("stored") != 1000:
                await asyncio.sleep(0.1)


@pytest.mark.chaos
async def test_a_broker_that_says_nothing_any_more_is_given_up(tmp_path: Path, rabbit: Rabbit) -> None:
    async with relayed(rabbit) as (relay, url):
        config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(url=url),), limits=QUICK)
        async with running(config) as collector:
            await consuming(collector)
            relay.stall()
            async with asyncio.timeout(60):
                while (await broker_of(collector))["consuming"]:
                    await asyncio.sleep(0.1)
            relay.resume()
            relay.cut()
            await rabbit.publish(message(1, rabbit.instance))
            await counted(collector, stored=1)


async def test_a_refused_body_has_the_time_that_its_length_takes(
    rabbit: Rabbit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given up too early it would come again, and nothing behind it, for ever."""
    async with connected(rabbit.config().url, name="test", on_lost=lambda: None) as broker:
        await broker.declare_queue(rabbit.queue + DLQ, DLQ_ARGUMENTS)
        monkeypatch.setattr("collector.amqp_answers.ANSWER_S_MAX", 0.0)
        await broker.put(rabbit.queue + DLQ, bytes(8 * 1024 * 1024), {})
        monkeypatch.undo()
    assert await rabbit.waiting(rabbit.queue + DLQ) == 1


async def test_a_wrong_password_is_told_as_one(rabbit: Rabbit) -> None:
    url = urlsplit(rabbit.config().url)
    wrong = url._replace(netloc=f"nobody:wrong@{url.hostname}:{url.port or 5672}").geturl()
    with pytest.raises(BrokerGone, match="the broker refuses our user or password"):
        async with connected(wrong, name="test", on_lost=lambda: None):
            pass


async def test_a_deleted_queue_is_declared_and_bound_anew(tmp_path: Path, rabbit: Rabbit) -> None:
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=QUICK)
    async with running(config) as collector:
        await consuming(collector)
        await rabbit.delete(rabbit.queue)
        await reaches(collector, "it consumes again", lambda broker: broker["connects"] == 2)
        await consuming(collector)
        await rabbit.publish(message(1, rabbit.instance))
        await counted(collector, stored=1)


async def test_a_killed_connection_is_built_anew_with_one_consumer(tmp_path: Path, rabbit: Rabbit) -> None:
    async with relayed(rabbit) as (relay, url):
        config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(url=url),), limits=QUICK)
        async with running(config) as collector:
            for turn in (1, 2, 3):
                await reaches(collector, f"connection {turn}", settled(connects=turn, consuming=True))
                await rabbit.publish(message(turn, rabbit.instance))
                await counted(collector, stored=turn)
                relay.cut()
            await reaches(collector, "the last", settled(connects=4, consuming=True))
            await rabbit.consumed_by(rabbit.queue, 1)


@contextlib.asynccontextmanager
async def relayed(rabbit: Rabbit) -> AsyncIterator[tuple[Relay, str]]:
    """A way to the broker that can be cut, and the URL that takes it."""
    address = urlsplit(rabbit.url)
    async with relay_to(address.port or 5672) as relay:
        netloc = f"{address.username}:{address.password}@127.0.0.1:{relay.port}"
        yield relay, address._replace(netloc=netloc).geturl()


async def test_starting_the_consumer_twice_gives_one(tmp_path: Path, rabbit: Rabbit) -> None:
    got: list[Delivery] = []
    await rabbit.declare(rabbit.queue, x_queue_type="quorum")
    async with connected(rabbit.url, name="twice", on_lost=lambda: None) as broker:
        link = await broker.link(10, got.append, on_closed=print, on_cancelled=print)
        await asyncio.gather(link.consume(rabbit.queue), link.consume(rabbit.queue))
        await link.consume(rabbit.queue)
        look = await broker.look(rabbit.queue)
        assert look is not None
        assert look.consumers == 1
        assert await broker.look("no-such-queue") is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"x_queue_type": "quorum", "x_delivery_limit": 20},
        {"x_queue_type": "classic"},
    ],
)
async def test_a_queue_of_our_name_that_could_lose_messages_is_refused_until_it_is_gone(
    tmp_path: Path, rabbit: Rabbit, arguments: dict[str, str | int]
) -> None:
    await rabbit.declare(rabbit.queue, **arguments)
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=QUICK)
    async with running(config) as collector:
        await raised(collector, "amqp.refused")
        broker = await broker_of(collector)
        assert not broker["consuming"]
        assert "inequivalent arg" in broker["trouble"]
        assert (await collector.post("/gateways/evolution", message(1, rabbit.instance))).status_code == 200
        await rabbit.delete(rabbit.queue)
        await consuming(collector)
        await over(collector, "amqp.refused")


async def test_twenty_five_deaths_on_one_message_lose_nothing(
    tmp_path: Path, own_broker: Broker, own_rabbit: Rabbit
) -> None:
    """With the limit that RabbitMQ 4 has by default, as a policy: the broker moves it, we read it there."""
    rabbit = own_rabbit
    pattern = f"^{rabbit.queue}"
    await asyncio.to_thread(
        own_broker.run, "set_policy", rabbit.token, pattern, '{"delivery-limit":20}', "--apply-to", "queues"
    )
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=QUICK)
    async with running(config):
        pass
    await rabbit.publish(message(1, rabbit.instance))
    for _ in range(25):
        await rabbit.die_holding_one()
    assert await rabbit.waiting(rabbit.queue) == 0
    assert await rabbit.waiting(rabbit.queue + RETURNED) == 1
    async with running(config) as collector:
        await counted(collector, stored=1)
    assert await rabbit.waiting(rabbit.queue + DLQ) == 0


async def test_without_such_a_policy_the_message_stays_where_it_is(tmp_path: Path, rabbit: Rabbit) -> None:
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=QUICK)
    async with running(config):
        pass
    await rabbit.publish(message(1, rabbit.instance))
    for _ in range(25):
        await rabbit.die_holding_one()
    assert await rabbit.waiting(rabbit.queue) == 1
    async with running(config) as collector:
        await counted(collector, stored=1)
        assert (await broker_of(collector))["redelivered"] == 1


def test_the_watchdog_judges_by_what_waits_and_what_comes() -> None:
    guard = MuteGuard(mute_s=30)
    full, empty = Look(messages=3, consumers=1), Look(messages=0, consumers=1)
    assert guard.judge(None, received=0, held=0, now_s=0) == "our queue is gone"
    assert guard.judge(Look(messages=0, consumers=0), received=0, held=0, now_s=0) is not None
    assert guard.judge(full, received=5, held=0, now_s=0) is None
    assert guard.judge(full, received=5, held=0, now_s=29) is None
    assert guard.judge(full, received=5, held=2, now_s=31) is None, "we hold them: the outbox is away"
    assert guard.judge(full, received=5, held=0, now_s=60) is None
    assert guard.judge(empty, received=5, held=0, now_s=70) is None
    assert guard.judge(full, received=5, held=0, now_s=99) is None
    told = guard.judge(full, received=5, held=0, now_s=101)
    assert told is not None
    assert "3 messages wait" in told
    assert guard.judge(full, received=6, held=0, now_s=102) is None


async def test_a_consumer_that_gets_nothing_is_noticed_and_built_anew(
    tmp_path: Path, rabbit: Rabbit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def swallowed(_link: Link, _message: object) -> None:
        """The first connection's deliveries never reach us."""

    quick = limits(amqp_watch_s=0.05, amqp_mute_s=0.3, amqp_reconnect_s_max=0.5)
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(prefetch=2),), limits=quick)
    with monkeypatch.context() as patched:
        patched.setattr(Link, "_arrived", swallowed)
        async with running(config) as collector:
            await consuming(collector)
            patched.undo()
            await rabbit.publish(*(message(number, rabbit.instance) for number in range(5)))
            await counted(collector, stored=5)
            assert (await broker_of(collector))["connects"] == 2
            await over(collector, "amqp.mute")
            recent = [line["alert"] for line in (await collector.status())["alerts"]["recent"]]
            assert "amqp.mute" in recent
