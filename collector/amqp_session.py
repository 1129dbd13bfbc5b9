"""One connection of the RabbitMQ door from its declarations to its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from datetime import datetime

from collector.amqp_answers import BrokerGone
from collector.amqp_broker import Broker, Delivery, Link
from collector.amqp_config import DLQ, DLQ_ARGUMENTS, RETURNED, AmqpConfig, queue_arguments
from collector.amqp_drain import Drain
from collector.amqp_state import AmqpState
from collector.amqp_taking import Taker
from collector.amqp_watch import Watchdog
from collector.config import Limits


class Session:
    """Consumes until the connection is lost or the process stops; ``over`` is set from then on."""

    def __init__(
        self,
        *,
        amqp: AmqpConfig,
        queue: str,
        name: str,
        taker: Taker,
        watchdog: Watchdog,
        state: AmqpState,
        limits: Limits,
        now: Callable[[], datetime],
    ) -> None:
        """``name`` is what the broker's people see."""
        self._amqp, self._queue, self._taker, self._watchdog = amqp, queue, taker, watchdog
        self._state, self._limits, self._now = state, limits, now
        self._drain = (
            Drain(amqp, name=name, state=state, on_delivery=self._delivered)
            if amqp.drain_gateway_queues
            else None
        )
        self._held: deque[Delivery] = deque()
        self._held_bytes = 0
        self._paused: set[Link] = set()
        self._news = asyncio.Event()
        self.over = asyncio.Event()

    def end(self) -> None:
        """Ends it soon, with what is under way settled; what comes from now on is not held."""
        self.over.set()
        self._news.set()
        self._resume()

    async def declare(self, broker: Broker) -> None:
        """Everything of ours before anything is consumed, so that no first event is missed.

        Raises BrokerRefuses when a queue of that name exists whose arguments would let messages be lost.
        """
        await broker.declare_queue(self._queue + DLQ, DLQ_ARGUMENTS)
        await broker.declare_queue(self._queue + RETURNED, queue_arguments(self._queue + DLQ))
        await broker.declare_queue(self._queue, queue_arguments(self._queue + RETURNED))
        for exchange in self._amqp.exchanges:
            await broker.declare_exchange(exchange)
            await broker.bind(self._queue, exchange)

    async def consume(self, broker: Broker, *, on_consuming: Callable[[], None]) -> None:
        """Takes what comes until it is over. Raises BrokerGone, BrokerRefuses and OutboxAway."""
        link = await broker.link(
            self._amqp.prefetch,
            self._delivered,
            on_closed=broker.lose,
            on_cancelled=lambda queue: broker.lose(f"the broker cancelled the consumer of {queue}"),
        )
        # The taking goes first: the answers to the consumes come behind a backlog whose bytes may stop the
        # reading, and only the taking makes room.
        beside = [self._beside("amqp taking", self._take(broker))]
        try:
            await link.consume(self._queue)
            await link.consume(self._queue + RETURNED)
            if not self.over.is_set():
                on_consuming()
                beside.append(self._beside("amqp watchdog", self._watchdog.keep_watching(broker, self.over)))
                if self._drain is not None:
                    beside.append(self._beside("amqp drain", self._drain.keep_draining(broker, self.over)))
            await self.over.wait()
        finally:
            self.end()
            ended = await asyncio.gather(*beside, return_exceptions=True)
        for fault in ended:
            if isinstance(fault, Exception):
                raise fault
        await link.cancel()

    def _beside(self, name: str, loop: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Its end ends the session."""
        task = asyncio.create_task(loop, name=name)
        task.add_done_callback(lambda _: self.end())
        return task

    async def _take(self, broker: Broker) -> None:
        while not self.over.is_set():
            await self._news.wait()
            self._news.clear()
            while self._held and not self.over.is_set():
                batch = self._next_batch()
                await self._taker.settle(batch, self.over)
                self._settled(batch)
                await asyncio.sleep(0)
        if broker.lost is not None:
            raise BrokerGone(broker.lost)

    def _next_batch(self) -> list[Delivery]:
        batch = [self._held.popleft()]
        size = len(batch[0].raw)
        while self._held and size < self._limits.amqp_batch_bytes_max:
            batch.append(self._held.popleft())
            size += len(batch[-1].raw)
        return batch

    def _settled(self, batch: list[Delivery]) -> None:
        self._state.held -= len(batch)
        self._held_bytes -= sum(len(delivery.raw) for delivery in batch)
        if self._held_bytes <= self._limits.bodies_in_flight_bytes_max:
            self._resume()

    def _resume(self) -> None:
        self._state.paused = False
        while self._paused:
            self._paused.pop().resume()

    def _delivered(self, delivery: Delivery) -> None:
        """Holds it for the next batch; bytes above the limit stop the reading, as the door's budget does."""
        if self.over.is_set():
            return
        self._held.append(delivery)
        state = self._state
        state.held += 1
        self._held_bytes += len(delivery.raw)
        if self._held_bytes > self._limits.bodies_in_flight_bytes_max:
            state.paused = True
            self._paused.add(delivery.link)
            delivery.link.pause()
        state.received += 1
        state.redelivered += delivery.redelivered
        state.last_message_at = self._now()
        if self._drain is not None:
            self._drain.heard(delivery)
        self._news.set()
