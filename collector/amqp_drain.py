"""Empties the gateway's own queues: it makes one for each event, and unread they fill the broker's disk.

They hold copies of what our own queue gets, and what came before that was there. They are found by passive
declaration only: declaring one with other arguments would cut the gateway's channel, for all its instances.
A queue that somebody else reads is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

import structlog

from collector.amqp_answers import BrokerGone, BrokerRefuses
from collector.amqp_broker import Broker, Delivery, Link, connected
from collector.amqp_config import EVENTS, AmqpConfig
from collector.amqp_state import AmqpState
from collector.pausing import pause

LOOK_EVERY_S: Final = 2.0
FIRST_EVENT_S: Final = 5.0
"""After an event the gateway has made its queue."""
LOOK_AGAIN_S: Final = 60.0
NAMES_MAX: Final = 20_000
PREFETCH_MAX: Final = 50

_Kind: TypeAlias = tuple[str, str]
"""(exchange, routing key)"""
_log = structlog.get_logger("collector.amqp")


class GatewayQueues:
    """Which of them to look at, and when: all at the start, later each whose event was seen. Pure."""

    def __init__(self, amqp: AmqpConfig, now_s: float) -> None:
        self._amqp = amqp
        self._due_s: dict[_Kind, float] = {
            (exchange, event): now_s for exchange in amqp.exchanges for event in EVENTS
        }

    def heard(self, kind: _Kind, now_s: float) -> None:
        """An event of that kind came: there may be a queue for it by now."""
        if kind not in self._due_s and len(self._due_s) < NAMES_MAX and kind[0] in self._amqp.exchanges:
            self._due_s[kind] = now_s + FIRST_EVENT_S

    def due(self, now_s: float) -> dict[str, _Kind]:
        """Names of queues to look at now. Each stays silent until ``absent``, or for a while."""
        kinds = [kind for kind, due_s in self._due_s.items() if due_s <= now_s]
        for kind in kinds:
            self._due_s[kind] = now_s + LOOK_AGAIN_S
        return {self._amqp.gateway_queue(*kind): kind for kind in kinds}

    def absent(self, kind: _Kind) -> None:
        """There is none: not before the next event."""
        self._due_s.pop(kind, None)


class Drain:
    """Runs beside the own queue's consumer, on a channel of its own; its troubles never end that one."""

    def __init__(
        self, amqp: AmqpConfig, *, name: str, state: AmqpState, on_delivery: Callable[[Delivery], None]
    ) -> None:
        self._amqp, self._name, self._state, self._on_delivery = amqp, name, state, on_delivery
        self._loop = asyncio.get_running_loop()
        self._queues = GatewayQueues(amqp, self._loop.time())
        self._link: Link | None = None

    def heard(self, delivery: Delivery) -> None:
        """Hear of every delivery."""
        self._queues.heard((delivery.exchange, delivery.routing_key), self._loop.time())

    async def keep_draining(self, broker: Broker, over: asyncio.Event) -> None:
        """Until it is over."""
        while not over.is_set():
            due = self._queues.due(self._loop.time())
            drained = self._drained()
            try:
                await self._look_at(broker, {q: kind for q, kind in due.items() if q not in drained}, over)
            except BrokerGone as error:
                _log.info("amqp.drain_failed", gateway=self._amqp.gateway, reason=str(error))
            self._state.drained = self._drained()
            await pause(over, LOOK_EVERY_S)

    def _drained(self) -> frozenset[str]:
        return self._link.queues if self._link is not None else frozenset()

    async def _look_at(self, broker: Broker, due: dict[str, _Kind], over: asyncio.Event) -> None:
        """On a short connection: the library remembers each channel that a missing queue closed."""
        if not due:
            return
        async with connected(self._amqp.url, name=f"{self._name} (looking)", on_lost=_nothing) as looking:
            for queue, kind in due.items():
                if over.is_set():
                    return
                try:
                    look = await looking.look(queue)
                    if look is None:
                        self._queues.absent(kind)
                    elif look.consumers == 0:
                        await self._drain(broker, queue)
                except BrokerRefuses as error:
                    _log.info("amqp.not_drained", gateway=self._amqp.gateway, queue=queue, reason=str(error))

    async def _drain(self, broker: Broker, queue: str) -> None:
        if self._link is None:
            self._link = await broker.link(
                min(self._amqp.prefetch, PREFETCH_MAX),
                self._on_delivery,
                on_closed=self._closed,
                on_cancelled=_nothing,
            )
        await self._link.consume(queue)
        _log.info("amqp.draining", gateway=self._amqp.gateway, queue=queue)

    def _closed(self, _reason: str) -> None:
        self._link = None


def _nothing(*_told: str) -> None:
    """What is found out at the next look anyway."""
