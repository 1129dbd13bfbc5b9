"""Brings delivered messages into the outbox, and only then acknowledges them.

What can never be stored goes to our dead-letter queue with the reason; while the outbox is in trouble nothing
is acknowledged and nothing is handed back, so that the broker sends no more than the prefetch and counts no
delivery against a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
import structlog

from collector.alerts import Alerts
from collector.amqp_broker import Broker, Delivery, Link, connected
from collector.amqp_config import AmqpConfig
from collector.amqp_state import AmqpState
from collector.capture import Capture
from collector.config import Limits
from collector.pausing import pause
from contracts.configured import GatewayConfig
from contracts.jsontext import NotJson, decode
from contracts.translation import Arrival
from outbox.store import StoreError, StoreFull

RETRY_S: Final = 0.5
RETRY_S_MAX: Final = 15.0
HEADER: Final = "x-zaplake-"
"""Begins the names of the headers that say where a refused message came from, and why it was refused."""

_is_json = msgspec.json.Decoder(msgspec.Raw).decode
_log = structlog.get_logger("collector.amqp")


class OutboxAway(Exception):
    """The outbox has taken nothing for so long that the messages are handed back to the broker."""


class Taker:
    """Settles deliveries of one gateway, in the order in which they came."""

    def __init__(
        self,
        *,
        amqp: AmqpConfig,
        gateway: GatewayConfig,
        name: str,
        dlq: str,
        capture: Capture,
        alerts: Alerts,
        limits: Limits,
        state: AmqpState,
        now: Callable[[], datetime],
    ) -> None:
        """``name`` is what the broker's people see."""
        self._amqp, self._gateway, self._name, self._dlq = amqp, gateway, name, dlq
        self._capture, self._alerts, self._limits = capture, alerts, limits
        self._state, self._now = state, now

    async def settle(self, batch: Sequence[Delivery], over: asyncio.Event) -> None:
        """Each message is durable in the outbox or in the dead-letter queue, then acknowledged.

        Settles nothing when ``over`` is set while it waits for the outbox: the broker will deliver again.
        Raises BrokerGone and OutboxAway; what was stored and not acknowledged comes again and is known.
        """
        refused = {delivery: reason for delivery in batch if (reason := self._unfit(delivery)) is not None}
        fit = [delivery for delivery in batch if delivery not in refused]
        stored = await self._stored_in_time(fit, over)
        if stored is None:
            return
        refused.update({delivery: reason for delivery, reason in zip(fit, stored, strict=True) if reason})
        await self._refuse(refused)
        last: dict[Link, int] = {}
        for delivery in batch:
            last[delivery.link] = delivery.tag
        for link, tag in last.items():
            await link.ack(tag)
        self._state.acked += len(batch)

    def _unfit(self, delivery: Delivery) -> str | None:
        """Why the outbox is not even asked."""
        if len(delivery.raw) > self._limits.body_bytes_max:
            return f"larger than {self._limits.body_bytes_max} bytes"
        try:
            _is_json(delivery.raw)
        except (msgspec.MsgspecError, RecursionError):
            try:
                decode(delivery.raw)
            except NotJson as error:
                return f"not JSON: {error}"[:200]
        return None

    async def _stored_in_time(self, fit: Sequence[Delivery], over: asyncio.Event) -> list[str | None] | None:
        """For each, why it could not be stored; None when it was over before the outbox took them."""
        loop = asyncio.get_running_loop()
        give_up_at, pause_s = loop.time() + self._limits.amqp_hold_s_max, RETRY_S
        while True:
            try:
                return await self._stored(fit)
            except StoreError as error:
                self._paused(error)
                if loop.time() >= give_up_at:
                    raise OutboxAway(type(error).__name__) from error
            await pause(over, pause_s)
            if over.is_set():
                return None
            pause_s = min(pause_s * 2, RETRY_S_MAX)

    async def _stored(self, fit: Sequence[Delivery]) -> list[str | None]:
        """Halves what fails for no reason of the outbox, until the one message is found that does."""
        if not fit:
            return []
        try:
            await self._capture.take_each([self._arrival(delivery) for delivery in fit])
        except StoreError:
            raise
        except Exception as error:
            if len(fit) == 1:
                _log.exception("amqp.failed", gateway=self._gateway.name, error=type(error).__name__)
                return [f"could not be captured: {type(error).__name__}"]
            middle = len(fit) // 2
            return [*await self._stored(fit[:middle]), *await self._stored(fit[middle:])]
        if self._state.trouble is not None:
            self._state.trouble = None
            _log.info("amqp.resumed", gateway=self._gateway.name)
        return [None] * len(fit)

    def _paused(self, error: StoreError) -> None:
        if self._state.trouble is None:
            _log.warning("amqp.paused", gateway=self._gateway.name, error=type(error).__name__)
        self._state.trouble = f"the outbox takes nothing: {type(error).__name__}"
        if isinstance(error, StoreFull):
            self._alerts.raise_("outbox.full", self._gateway.name, str(error), fades=True)

    def _arrival(self, delivery: Delivery) -> Arrival:
        return Arrival(
            raw=delivery.raw,
            gateway=self._gateway,
            path_instance=self._amqp.instance_of(delivery.exchange),
            channel="rabbitmq",
            captured_at=self._now(),
        )

    async def _refuse(self, refused: Mapping[Delivery, str]) -> None:
        """On a connection of their own: nothing may be read of the other, the broker's confirms neither."""
        if not refused:
            return
        async with connected(self._amqp.url, name=f"{self._name} (refusing)", on_lost=_nothing) as aside:
            for delivery, reason in refused.items():
                await self._put(aside, delivery, reason)

    async def _put(self, broker: Broker, delivery: Delivery, reason: str) -> None:
        headers = {
            f"{HEADER}reason": reason,
            f"{HEADER}exchange": delivery.exchange,
            f"{HEADER}routing-key": delivery.routing_key,
            f"{HEADER}refused-at": self._now().isoformat(),
        }
        await broker.put(self._dlq, delivery.raw, headers)
        self._state.refused += 1
        self._alerts.raise_("amqp.dlq", self._gateway.name, f"{reason}; kept in the queue {self._dlq}")
        _log.warning("amqp.refused_message", gateway=self._gateway.name, reason=reason)


def _nothing() -> None:
    """Whoever publishes learns of it."""
