"""One connection to a RabbitMQ: what is declared, consumed, acknowledged and published there.

Only this module, ``amqp_answers`` and ``amqp_frames`` know the client library. Its connection is not the
self-healing one: whatever is lost ends everything here at once, and the door builds all of it anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import CONNECTION_EXCEPTIONS, ChannelNotFoundEntity
from aiormq.abc import AbstractChannel as RawChannel
from aiormq.abc import DeliveredMessage

from collector.amqp_answers import Reading, answered, told
from collector.amqp_frames import TolerantConnection

HEARTBEAT_S: Final = 20
"""A broker that says nothing for three of these is gone."""
SENT_BYTES_PER_S_MIN: Final = 256 * 1024
"""A body has as much longer as it takes on a line like that: refused ones may be very large."""
CLOSE_S_MAX: Final = 2.0


class Delivery:
    """One message as the broker delivered it, to be acknowledged on its link by its tag."""

    __slots__ = ("exchange", "link", "raw", "redelivered", "routing_key", "tag")

    def __init__(self, link: Link, message: DeliveredMessage) -> None:
        self.link, self.raw = link, message.body
        self.exchange, self.routing_key = message.exchange or "", message.routing_key or ""
        self.redelivered, self.tag = bool(message.redelivered), message.delivery_tag or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A queue at one moment: messages that wait, and who consumes it, we included."""

    messages: int
    consumers: int


class Link:
    """One channel with its consumers. Deliveries come in order; acknowledging one acknowledges all before."""

    def __init__(
        self, channel: RawChannel, reading: Reading, on_delivery: Callable[[Delivery], None]
    ) -> None:
        self._channel, self._reading, self._on_delivery = channel, reading, on_delivery
        self._tags: dict[str, str] = {}
        # AMQP bounds unacknowledged messages, not bytes. A frame that finds no room is not taken from the
        # socket, and TCP makes the broker wait; the library hands frames over by this method of its queue.
        self._put_frame = channel.frames.put
        vars(channel.frames)["put"] = self._put_when_room

    @property
    def queues(self) -> frozenset[str]:
        """What is consumed now; a queue that the broker took away is no longer among them."""
        return frozenset(self._tags)

    async def consume(self, queue: str) -> None:
        """Begins, once for each queue. Raises BrokerGone and BrokerRefuses."""
        if queue in self._tags:
            return
        tag = self._tags[queue] = f"zaplake-{queue}"
        try:
            async with self._reading.answered():
                await self._channel.basic_consume(queue, self._arrived, consumer_tag=tag)
        except BaseException:
            self._tags.pop(queue, None)
            raise

    async def cancel(self) -> None:
        """Ends all consuming; what was delivered may still be acknowledged."""
        while self._tags:
            _queue, tag = self._tags.popitem()
            async with answered():  # a stop is not held up by what comes before the answer
                await self._channel.basic_cancel(tag)

    async def ack(self, tag: int) -> None:
        """Acknowledges everything up to ``tag``; on a closed channel nothing: the broker delivers again."""
        if self._channel.is_closed:
            return
        async with answered():
            await self._channel.basic_ack(tag, multiple=True)

    def forget(self, consumer_tag: str | None) -> str | None:
        """The broker cancelled that consumer; the name of its queue."""
        for queue, tag in self._tags.items():
            if tag == consumer_tag:
                del self._tags[queue]
                return queue
        return None

    def pause(self) -> None:
        """Until ``resume`` nothing is read of the whole connection, heartbeats neither."""
        self._reading.pause()

    def resume(self) -> None:
        """Reads on."""
        self._reading.resume()

    async def _put_when_room(self, frame: object) -> None:
        await self._reading.room()
        await self._put_frame(frame)

    async def _arrived(self, message: DeliveredMessage) -> None:
        self._on_delivery(Delivery(self, message))


class Broker:
    """A living connection; ``lost`` says why it is none any more."""

    def __init__(self, connection: AbstractConnection, on_lost: Callable[[], None]) -> None:
        """``on_lost`` is called once."""
        self._connection, self._on_lost = connection, on_lost
        self._topology: AbstractChannel | None = None
        self._channels: list[AbstractChannel] = []
        self._reading = Reading()
        self.lost: str | None = None
        connection.close_callbacks.add(lambda _sender, error: self.lose(f"connection closed: {told(error)}"))

    def lose(self, reason: str) -> None:
        """Gives the connection up."""
        if self.lost is None:
            self.lost = reason
            self._on_lost()

    async def declare_exchange(self, name: str) -> None:
        """As Evolution does, so that whoever is first does no harm."""
        async with answered():
            channel = await self._channel()
            await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC, durable=True)

    async def declare_queue(self, name: str, arguments: Mapping[str, str | int]) -> None:
        """A durable queue. BrokerRefuses when there is one of that name with other arguments."""
        async with answered():
            channel = await self._channel()
            await channel.declare_queue(name, durable=True, arguments=dict(arguments))

    async def bind(self, queue: str, exchange: str) -> None:
        """Every event of the exchange."""
        async with answered():
            channel = await (await self._channel()).get_underlay_channel()
            await channel.queue_bind(queue, exchange, "#")

    async def link(
        self,
        prefetch: int,
        on_delivery: Callable[[Delivery], None],
        *,
        on_closed: Callable[[str], None],
        on_cancelled: Callable[[str], None],
    ) -> Link:
        """A channel to consume on; it tells when it closed, and which queue the broker took away."""
        async with self._reading.answered():
            channel = await self._connection.channel(publisher_confirms=False)
            self._channels.append(channel)
            await channel.set_qos(prefetch)
            raw = await channel.get_underlay_channel()
        link = Link(raw, self._reading, on_delivery)

        def cancelled(frame: object) -> None:
            queue = link.forget(getattr(frame, "consumer_tag", None))
            if queue is not None:
                on_cancelled(queue)

        raw.on_consumer_cancel_callbacks.add(cancelled)
        channel.close_callbacks.add(lambda _sender, error: on_closed(f"channel closed: {told(error)}"))
        return link

    async def look(self, queue: str) -> Look | None:
        """What the queue is like; None when there is none, which costs the channel: it has one of its own."""
        async with self._reading.answered():
            channel = await self._connection.channel(publisher_confirms=False)
            try:
                found = await channel.declare_queue(queue, passive=True)
            except ChannelNotFoundEntity:
                return None
            finally:
                await _close(channel)
        result = found.declaration_result
        return Look(messages=result.message_count or 0, consumers=result.consumer_count or 0)

    async def has_exchange(self, name: str) -> bool:
        """Whether there is one of that name, of whatever type."""
        async with answered():
            channel = await self._connection.channel(publisher_confirms=False)
            try:
                await channel.declare_exchange(name, passive=True)
            except ChannelNotFoundEntity:
                return False
            finally:
                await _close(channel)
        return True

    async def put(self, queue: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Publishes to the queue; durable there at return, with the broker's confirm. Raises BrokerGone."""
        message = aio_pika.Message(
            body, headers=dict(headers), delivery_mode=aio_pika.DeliveryMode.PERSISTENT
        )
        async with answered(len(body) / SENT_BYTES_PER_S_MIN):
            channel = await self._channel()
            await channel.default_exchange.publish(message, routing_key=queue, mandatory=True)

    async def close(self) -> None:
        """Channels first: the library tells each of its end."""
        for channel in self._channels:
            await _close(channel)
        await self._connection.close()

    async def _channel(self) -> AbstractChannel:
        if self._topology is None or self._topology.is_closed:
            self._topology = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
            self._channels.append(self._topology)
        return self._topology


@contextlib.asynccontextmanager
async def connected(url: str, *, name: str, on_lost: Callable[[], None]) -> AsyncIterator[Broker]:
    """A connection, closed at the end; ``name`` is how the broker's people see it. Raises BrokerGone."""
    async with answered():
        connection = await aio_pika.connect(
            url,
            heartbeat=HEARTBEAT_S,
            client_properties={"connection_name": name},
            connection_class=TolerantConnection,
        )
    broker = Broker(connection, on_lost)
    try:
        yield broker
    finally:
        with contextlib.suppress(TimeoutError, *CONNECTION_EXCEPTIONS):
            async with asyncio.timeout(CLOSE_S_MAX):
                await broker.close()


async def _close(channel: AbstractChannel) -> None:
    """Also one that is closed: then the library's own tasks for it are awaited here."""
    with contextlib.suppress(TimeoutError, *CONNECTION_EXCEPTIONS):
        async with asyncio.timeout(CLOSE_S_MAX):
            await channel.close()
