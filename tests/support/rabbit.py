"""Plays Evolution's side of a RabbitMQ: its exchanges, its queues, and how it publishes."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import CONNECTION_EXCEPTIONS, ChannelNotFoundEntity
from pamqp.common import FieldTable

from collector.amqp_config import DLQ, EVENTS, RETURNED, AmqpConfig
from tests.support.rabbitmq import DEADLINE_S


class Rabbit:
    """A broker as the test sees it, with names of the test's own; each act has its own connection."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.token = uuid.uuid4().hex[:12]
        self.instance = f"loja-{self.token}"
        self.exchange = f"evolution-{self.token}"
        self.queue = f"zaplake-{self.token}"
        self._queues: set[str] = {self.queue, self.queue + RETURNED, self.queue + DLQ}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        of_the_gateway = {f"{self.exchange}.{event}" for event in EVENTS}
        async with self.channel() as channel:
            for queue in self._queues | of_the_gateway:
                await channel.queue_delete(queue)
            for exchange in (self.instance, self.exchange):
                await channel.exchange_delete(exchange)

    def own_queue(self, name: str) -> str:
        """Another queue of ours for a collector of that name; deleted at the end with what belongs to it."""
        queue = f"{self.queue}-{name}"
        self._queues |= {queue, queue + RETURNED, queue + DLQ}
        return queue

    @contextlib.asynccontextmanager
    async def channel(self) -> AsyncIterator[AbstractChannel]:
        """Closed at the end, in the order in which the library leaves no task behind."""
        connection = await aio_pika.connect(self.url)
        channel = await connection.channel()
        try:
            yield channel
        finally:
            with contextlib.suppress(*CONNECTION_EXCEPTIONS):
                await channel.close()
            await connection.close()

    def config(self, **changes: Any) -> AmqpConfig:
        """A door for this test's names."""
        values: dict[str, Any] = {
            "gateway": "evolution",
            "url": self.url,
            "instances": (self.instance,),
            "global_exchange": self.exchange,
            "prefix": self.exchange,
            "queue": self.queue,
        }
        return AmqpConfig(**{**values, **changes})

    async def publish(self, *bodies: bytes, event: str = "messages.upsert", exchange: str = "") -> None:
        """As the gateway does, without any property; but waits until the broker has them."""
        async with self.channel() as channel:
            target = await channel.declare_exchange(exchange or self.instance, "topic", durable=True)
            for body in bodies:
                message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.NOT_PERSISTENT)
                await target.publish(message, routing_key=event, mandatory=False)

    def gateways(self, event: str) -> str:
        """The name of the gateway's own queue for that event of our instance."""
        name = f"{self.instance}.{event}"
        self._queues.add(name)
        return name

    async def declare_as_gateway(self, event: str) -> str:
        """The queue that Evolution makes at the first event of a type."""
        name = self.gateways(event)
        async with self.channel() as channel:
            target = await channel.declare_exchange(self.instance, "topic", durable=True)
            queue = await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
            await queue.bind(target, event)
        return name

    async def declare(self, queue: str, **arguments: str | int) -> None:
        """Any queue."""
        self._queues.add(queue)
        given: FieldTable = {name.replace("_", "-"): value for name, value in arguments.items()}
        async with self.channel() as channel:
            await channel.declare_queue(queue, durable=True, arguments=given)

    async def put(self, queue: str, *bodies: bytes) -> None:
        """Into that queue, without an exchange of the gateway."""
        async with self.channel() as channel:
            for body in bodies:
                await channel.default_exchange.publish(aio_pika.Message(body), routing_key=queue)

    async def delete(self, queue: str) -> None:
        """With all that waits there."""
        async with self.channel() as channel:
            await channel.queue_delete(queue)

    async def waiting(self, queue: str) -> int | None:
        """Messages that wait there; None without such a queue."""
        async with self.channel() as channel:
            with contextlib.suppress(ChannelNotFoundEntity):
                found = await channel.declare_queue(queue, passive=True)
                return found.declaration_result.message_count
        return None

    async def consumers(self, queue: str) -> int | None:
        """Who consumes it now; None without such a queue."""
        async with self.channel() as channel:
            with contextlib.suppress(ChannelNotFoundEntity):
                found = await channel.declare_queue(queue, passive=True)
                return found.declaration_result.consumer_count
        return None

    async def consumed_by(self, queue: str, count: int) -> None:
        """Waits until so many consume it: the broker may still see one that has died."""
        async with asyncio.timeout(DEADLINE_S):
            while await self.consumers(queue) != count:
                await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def read_by_others(self, queue: str) -> AsyncIterator[None]:
        """Another program reads that queue."""

        async def take(message: AbstractIncomingMessage) -> None:
            await message.ack()

        async with self.channel() as channel:
            await (await channel.declare_queue(queue, passive=True)).consume(take)
            yield

    async def die_holding_one(self) -> None:
        """A consumer of our queues takes one message and is gone before it acknowledges."""
        got = asyncio.Event()

        async def hold(_message: AbstractIncomingMessage) -> None:
            got.set()

        async with self.channel() as channel:
            await channel.set_qos(1)
            for queue in (self.queue, self.queue + RETURNED):
                await (await channel.declare_queue(queue, passive=True)).consume(hold)
            async with asyncio.timeout(DEADLINE_S):
                await got.wait()

    async def fetch(self, queue: str) -> AbstractIncomingMessage | None:
        """Takes one message away."""
        async with self.channel() as channel:
            found = await channel.declare_queue(queue, passive=True)
            return await found.get(no_ack=True, fail=False)

    async def fetch_all(self, queue: str) -> list[AbstractIncomingMessage]:
        """Takes all messages away."""
        taken = []
        while (message := await self.fetch(queue)) is not None:
            taken.append(message)
        return taken
