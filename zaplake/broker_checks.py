"""What doctor tries at the gateways' RabbitMQ: reachable, exchanges there, our queues safe and read."""

from __future__ import annotations

from collections.abc import AsyncIterator

from collector.amqp_answers import BrokerGone, BrokerRefuses
from collector.amqp_broker import Broker, connected
from collector.amqp_config import DLQ, RETURNED, AmqpConfig, queue_arguments
from zaplake.finding import Finding
from zaplake.settings import Settings
from zaplake.trouble import Trouble
from zaplake.wiring import verbs_config
from zaplake.wording import counted


async def check_brokers(settings: Settings) -> AsyncIterator[Finding]:
    """Each configured broker. Declares nothing new, raises nothing."""
    try:
        config = verbs_config(settings)
    except Trouble as trouble:
        yield Finding(what=trouble.what, next_step=trouble.next_step)
        return
    if not config.amqp:
        yield Finding(what="RabbitMQ: not read; AMQP_URL names the broker that the gateway publishes to")
    for amqp in config.amqp:
        where = f"RabbitMQ of {amqp.gateway}"
        try:
            async with connected(amqp.url, name="zaplake doctor", on_lost=_nothing) as broker:
                yield Finding(what=f"{where}: {amqp.address} answers")
                yield await _exchanges(broker, amqp, where)
                async for finding in _queues(broker, amqp.own_queue(config.name), where):
                    yield finding
        except BrokerGone as error:
            yield Finding(
                what=f"{where}: {amqp.address} cannot be used: {error}",
                next_step="start it, or repair AMQP_URL: host, port, user, password, vhost",
            )
        except BrokerRefuses as error:
            yield Finding(
                what=f"{where}: {error}", next_step="grant this user configure, write and read in that vhost"
            )


async def _exchanges(broker: Broker, amqp: AmqpConfig, where: str) -> Finding:
    missing = [name for name in amqp.exchanges if not await broker.has_exchange(name)]
    if missing:
        return Finding(
            what=f"{where}: no exchange {', '.join(missing)}",
            next_step="start the collector, which declares them; are they written as in the gateway?",
        )
    return Finding(what=f"{where}: exchanges {', '.join(amqp.exchanges)}")


async def _queues(broker: Broker, queue: str, where: str) -> AsyncIterator[Finding]:
    look = await broker.look(queue)
    if look is None:
        yield Finding(
            what=f"{where}: no queue {queue}: what is published now is lost to RabbitMQ's door",
            next_step="start the collector, which declares and binds it",
        )
        return
    try:
        await broker.declare_queue(queue, queue_arguments(queue + RETURNED))
    except BrokerRefuses as error:
        yield Finding(
            what=f"{where}: the queue {queue} could lose messages: {error}",
            next_step="empty and delete it, or set another amqp.queue; the collector declares a safe one",
        )
    waiting = f"{counted(look.messages, 'message')} waiting"
    if look.consumers != 1:
        yield Finding(
            what=f"{where}: {counted(look.consumers, 'consumer')} of {queue}, {waiting}",
            next_step="one collector reads it: start it, or give each collector a queue of its own",
        )
    else:
        yield Finding(what=f"{where}: the queue {queue} is read, {waiting}")
    dead = await broker.look(queue + DLQ)
    if dead is not None and dead.messages:
        yield Finding(
            what=f"{where}: {counted(dead.messages, 'message')} in {queue}{DLQ}",
            next_step="look at them in RabbitMQ; the header x-zaplake-reason says why; purge it when done",
        )


def _nothing() -> None:
    """The next request fails, and says so."""
