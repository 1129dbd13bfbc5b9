"""Plays Evolution's side of a RabbitMQ: its exchanges, its queues, and how it publishes."""

from __future__ import annotations

import contextlib
import uuid
from types import TracebackType
from typing import Any, Self

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import AMQPError, ChannelNotFoundEntity

from collector.amqp_config import DLQ, RETURNED, AmqpConfig


class Rabbit:
    """One connection of the test's own, and names that no other test uses."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.token = uuid.uuid4().hex[:12]
        self.instance = f"loja-{self.token}"
        self.exchange = f"evolution-{self.token}"
        self.queue = f"zaplake-{self.token}"
        self._queues: set[str] = {self.queue, self.queue + RETURNED, self.queue + DLQ}

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.connect()
        channel = await self._connection.channel()
        for queue in self._queues:
            await channel.queue_delete(queue)
        for exchange in (self.instance, self.exchange):
            await channel.exchange_delete(exchange)
        await self._connection.close()

    async def connect(self) -> None:
        """Anew, where the broker was away."""
        self._connection = await aio_pika.connect(self.url)

    def config(self, **changes: Any) -> AmqpConfig:
        """A door for this test's names."""
        values: dict[str, Any] = {
            "gateway": "evolution",
            "url": self.url,
            "instances": (self.instance,),
            "global_exchange": self.exchange,
            "queue": self.queue,
        }
        return AmqpConfig(**{**values, **changes})

    async def publish(self, *bodies: bytes, event: str = "messages.upsert", exchange: str = "") -> None:
        """As the gateway does, without any property; but waits until the broker has them."""
        channel = await self._connection.channel()
        target = await channel.declare_exchange(exchange or self.instance, "topic", durable=True)
        for body in bodies:
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.NOT_PERSISTENT)
            await target.publish(message, routing_key=event, mandatory=False)
        await channel.close()

    async def declare_as_gateway(self, event: str, exchange: str = "") -> str:
        """The queue that Evolution makes at the first event of a type."""
        name = f"{exchange or self.instance}.{event}"
        self._queues.add(name)
        channel = await self._connection.channel()
        target = await channel.declare_exchange(exchange or self.instance, "topic", durable=True)
        queue = await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
        await queue.bind(target, event)
        await channel.close()
        return name

    async def declare(self, queue: str, **arguments: str | int) -> None:
        """Any queue."""
        self._queues.add(queue)
        channel = await self._connection.channel()
        await channel.declare_queue(
            queue,
            durable=True,
            arguments={name.replace("_", "-"): value for name, value in arguments.items()},
        )
        await channel.close()

    async def delete(self, queue: str) -> None:
        channel = await self._connection.channel()
        await channel.queue_delete(queue)
        await channel.close()

    async def waiting(self, queue: str) -> int | None:
        """Messages that wait there; None without such a queue."""
        channel = await self._connection.channel()
        with contextlib.suppress(ChannelNotFoundEntity):
            found = await channel.declare_queue(queue, passive=True)
            await channel.close()
            return found.declaration_result.message_count
        return None

    async def consumers(self, queue: str) -> int | None:
        channel = await self._connection.channel()
        found = await channel.declare_queue(queue, passive=True)
        await channel.close()
        return found.declaration_result.consumer_count

    async def read(self, queue: str) -> str:
        """Another program reads that queue, for as long as this test lasts."""
        channel = await self._connection.channel()
        found = await channel.declare_queue(queue, passive=True)

        async def take(message: AbstractIncomingMessage) -> None:
            await message.ack()

        return await found.consume(take)

    async def fetch(self, queue: str) -> AbstractIncomingMessage | None:
        """Takes one message away."""
        channel = await self._connection.channel()
        with contextlib.suppress(AMQPError):
            found = await channel.declare_queue(queue, passive=True)
            message = await found.get(no_ack=True, fail=False)
            await channel.close()
            return message
        return None
