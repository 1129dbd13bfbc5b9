"""Publishes to RabbitMQ as Evolution 2.3.7 does: transient, without properties, and never twice.

What it does worse than it could is kept: while the broker is away events are dropped, and the first event of
a type is published before the gateway's own queue for it exists.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Final

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import CONNECTION_EXCEPTIONS

from simulator.story import Webhook

RECONNECT_S: Final = 5.0
ANSWER_S_MAX: Final = 10.0


@dataclass(slots=True)
class Published:
    """What became of the events."""

    published: int = 0
    dropped: int = 0


class Publisher:
    """One connection; ``run`` ends when the source does or when it is cancelled."""

    def __init__(
        self,
        url: str,
        *,
        instances: Collection[str],
        global_exchange: str,
        prefix: str = "",
        reconnect_s: float = RECONNECT_S,
    ) -> None:
        """``instances`` have exchanges of their own; the others publish to the global one, if there is."""
        self.tally = Published()
        self._url, self._instances, self._global, self._prefix = url, instances, global_exchange, prefix
        self._reconnect_s, self._again_at_s = reconnect_s, 0.0
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._bound: set[tuple[str, str]] = set()

    async def run(self, source: AsyncIterator[Webhook]) -> Published:
        """Publishes every event of ``source``, as far as the broker is there."""
        try:
            async for webhook in source:
                await self._emit(webhook)
        finally:
            await self._close()
        return self.tally

    async def _emit(self, webhook: Webhook) -> None:
        exchange = webhook.instance if webhook.instance in self._instances else self._global
        if not exchange:
            return
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                await self._publish(exchange, webhook)
        except (TimeoutError, *CONNECTION_EXCEPTIONS):
            self.tally.dropped += 1
            self._again_at_s = asyncio.get_running_loop().time() + self._reconnect_s
            await self._close()
        else:
            self.tally.published += 1

    async def _publish(self, exchange: str, webhook: Webhook) -> None:
        channel = await self._open()
        is_first = (exchange, webhook.event) not in self._bound
        if is_first:
            target = await channel.declare_exchange(exchange, aio_pika.ExchangeType.TOPIC, durable=True)
        else:
            target = await channel.get_exchange(exchange, ensure=False)
        message = aio_pika.Message(message_of(webhook), delivery_mode=aio_pika.DeliveryMode.NOT_PERSISTENT)
        await target.publish(message, routing_key=webhook.event, mandatory=False)
        if is_first:
            owner = self._prefix if exchange == self._global else exchange
            name = f"{owner}.{webhook.event}" if owner else webhook.event
            queue = await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
            await queue.bind(target, webhook.event)
            self._bound.add((exchange, webhook.event))

    async def _open(self) -> AbstractChannel:
        if self._channel is None or self._channel.is_closed:
            if asyncio.get_running_loop().time() < self._again_at_s:
                raise ConnectionError("the broker is away")
            await self._close()
            self._connection = await aio_pika.connect(self._url, timeout=ANSWER_S_MAX)
            self._channel = await self._connection.channel(publisher_confirms=False)
            self._bound.clear()
        return self._channel

    async def _close(self) -> None:
        connection, channel = self._connection, self._channel
        self._connection = self._channel = None
        with contextlib.suppress(TimeoutError, *CONNECTION_EXCEPTIONS):
            async with asyncio.timeout(ANSWER_S_MAX):
                if channel is not None:
                    await channel.close()
                if connection is not None:
                    await connection.close()


def message_of(webhook: Webhook) -> bytes:
    """The body as RabbitMQ gets it: the webhook's without ``destination``."""
    body = json.loads(webhook.body)
    body.pop("destination", None)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
