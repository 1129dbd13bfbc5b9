"""The RabbitMQ door of one gateway: connects, consumes, and after any loss builds everything anew.

Commit before acknowledge: a message is acknowledged when its facts are in the outbox. Whatever dies in
between, the broker delivers it again, and its identity makes it a copy.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import structlog

from collector.alerts import Alerts
from collector.amqp_answers import BrokerGone, BrokerRefuses
from collector.amqp_broker import connected
from collector.amqp_config import DLQ, AmqpConfig
from collector.amqp_session import Session
from collector.amqp_state import AmqpState
from collector.amqp_taking import OutboxAway, Taker
from collector.amqp_watch import Watchdog
from collector.capture import Capture
from collector.config import CollectorConfig
from collector.pausing import pause
from contracts.configured import GatewayConfig
from outbox.store import Store, StoreError

RECONNECT_S: Final = 0.5
DISCONNECTED: Final = "amqp.disconnected"
REFUSED: Final = "amqp.refused"

_log = structlog.get_logger("collector.amqp")


class AmqpDoor:
    """Consumes on at most one connection, with one consumer a queue, however often it is built anew."""

    def __init__(
        self,
        *,
        amqp: AmqpConfig,
        gateway: GatewayConfig,
        config: CollectorConfig,
        capture: Capture,
        alerts: Alerts,
        now: Callable[[], datetime],
        has_room: Callable[[], Awaitable[bool]],
    ) -> None:
        """``has_room``: whether the outbox would take something now."""
        self._amqp, self._config, self._alerts = amqp, config, alerts
        self._now, self._has_room = now, has_room
        self._queue = amqp.own_queue(config.name)
        self._name = f"zaplake {config.name}/{amqp.gateway}"
        self.state = AmqpState(gateway=amqp.gateway, address=amqp.address, queue=self._queue, since=now())
        self._taker = Taker(
            amqp=amqp,
            gateway=gateway,
            name=self._name,
            dlq=self._queue + DLQ,
            capture=capture,
            alerts=alerts,
            limits=config.limits,
            state=self.state,
            now=now,
        )

        self._watchdog = Watchdog(queue=self._queue, state=self.state, alerts=alerts, limits=config.limits)

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop``; every trouble of broker and outbox is waited out, with growing pauses."""
        pause_s = RECONNECT_S
        while not stop.is_set():
            connects = self.state.connects
            try:
                await self._connection(stop)
            except BrokerRefuses as error:
                self._ceased(str(error))
                self._alerts.raise_(REFUSED, self._amqp.gateway, str(error))
            except BrokerGone as error:
                self._ceased(str(error))
                self._tell_if_long()
            except OutboxAway as error:
                self._ceased(f"the outbox takes nothing: {error}")
                while not stop.is_set() and not await self._has_room():
                    await pause(stop, RECONNECT_S)
            pause_s = RECONNECT_S if self.state.connects > connects else pause_s * 2
            pause_s = min(pause_s, self._config.limits.amqp_reconnect_s_max)
            await pause(stop, pause_s * random.uniform(0.8, 1.2))  # noqa: S311 (a pause, not a secret)

    async def _connection(self, stop: asyncio.Event) -> None:
        session = Session(
            amqp=self._amqp,
            queue=self._queue,
            name=self._name,
            taker=self._taker,
            watchdog=self._watchdog,
            state=self.state,
            limits=self._config.limits,
            now=self._now,
        )
        stopping = asyncio.create_task(_then(stop, session.end), name="amqp stop")
        try:
            async with connected(self._amqp.url, name=self._name, on_lost=session.end) as broker:
                self.state.connected = True
                await session.declare(broker)
                await session.consume(broker, on_consuming=self._consuming)
        finally:
            stopping.cancel()
            if self.state.consuming:
                self.state.since = self._now()
            self.state.connected = self.state.consuming = False
            self.state.held = 0

    def _consuming(self) -> None:
        state = self.state
        state.consuming, state.trouble, state.since = True, None, self._now()
        state.connects += 1
        self._alerts.resolve(DISCONNECTED, self._amqp.gateway)
        self._alerts.resolve(REFUSED, self._amqp.gateway)
        _log.info("amqp.consuming", gateway=self._amqp.gateway, queue=self._queue)

    def _ceased(self, reason: str) -> None:
        self.state.trouble = reason
        _log.warning("amqp.ceased", gateway=self._amqp.gateway, reason=reason)

    def _tell_if_long(self) -> None:
        state = self.state
        assert state.since is not None, "set from the start"
        if (self._now() - state.since).total_seconds() >= self._config.limits.amqp_disconnected_alert_s:
            self._alerts.raise_(DISCONNECTED, self._amqp.gateway, f"{state.address}: {state.trouble}")


def amqp_doors(
    config: CollectorConfig, *, store: Store, capture: Capture, alerts: Alerts, now: Callable[[], datetime]
) -> tuple[AmqpDoor, ...]:
    """One for each configured RabbitMQ, not yet running."""
    gateways = {gateway.name: gateway for gateway in config.gateways}

    async def has_room() -> bool:
        try:
            stats = await store.stats()
        except StoreError:
            return False
        return stats.has_reserve and config.limits.store.share(stats.waiting, stats.bytes) < 1

    return tuple(
        AmqpDoor(
            amqp=amqp,
            gateway=gateways[amqp.gateway],
            config=config,
            capture=capture,
            alerts=alerts,
            now=now,
            has_room=has_room,
        )
        for amqp in config.amqp
    )


async def _then(event: asyncio.Event, act: Callable[[], None]) -> None:
    await event.wait()
    act()
