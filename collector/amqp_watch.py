"""Notices a connection that consumes nothing, and what waits in the dead-letter queue."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from collector.alerts import Alerts
from collector.amqp_answers import BrokerGone, BrokerRefuses
from collector.amqp_broker import Broker, Look
from collector.amqp_config import DLQ
from collector.amqp_state import AmqpState
from collector.config import Limits
from collector.pausing import pause

MUTE: Final = "amqp.mute"
DLQ_ALERT: Final = "amqp.dlq"


@dataclass(slots=True, kw_only=True)
class MuteGuard:
    """Tells from one look to the next whether events wait and none comes. Pure: the time is an argument."""

    mute_s: float
    received: int = -1
    quiet_since_s: float = 0.0

    def judge(self, look: Look | None, *, received: int, held: int, now_s: float) -> str | None:
        """Why the consumer is none; None while all is well."""
        if look is None:
            return "our queue is gone"
        if look.consumers == 0:
            return "our queue has no consumer"
        if received != self.received or look.messages == 0 or held:
            self.received, self.quiet_since_s = received, now_s
            return None
        if now_s - self.quiet_since_s < self.mute_s:
            return None
        return f"{look.messages} messages wait and none was delivered for {self.mute_s:.0f} s"


class Watchdog:
    """Looks every few seconds; a mute connection is given up, so that everything is built anew."""

    def __init__(self, *, queue: str, state: AmqpState, alerts: Alerts, limits: Limits) -> None:
        self._queue, self._state, self._alerts, self._limits = queue, state, alerts, limits

    async def keep_watching(self, broker: Broker, over: asyncio.Event) -> None:
        """Until it is over."""
        loop, guard = asyncio.get_running_loop(), MuteGuard(mute_s=self._limits.amqp_mute_s)
        state = self._state
        while not over.is_set():
            await pause(over, self._limits.amqp_watch_s)
            if over.is_set():
                return
            if state.paused:
                continue  # an answer would not be read
            try:
                look = await broker.look(self._queue)
                dead = await broker.look(self._queue + DLQ)
            except (BrokerGone, BrokerRefuses) as error:
                broker.lose(f"no answer to the watchdog: {error}")
                return
            trouble = guard.judge(look, received=state.received, held=state.held, now_s=loop.time())
            if trouble is not None:
                self._alerts.raise_(MUTE, state.gateway, trouble)
                broker.lose(trouble)
                return
            assert look is not None, "the guard has judged it"
            state.waiting, state.consumers = look.messages, look.consumers
            self._tell_dead(dead.messages if dead is not None else 0)
            self._alerts.resolve(MUTE, state.gateway)

    def _tell_dead(self, messages: int) -> None:
        self._state.dead = messages
        if messages:
            detail = f"{messages} messages that could not be read are kept in the queue {self._queue}{DLQ}"
            self._alerts.raise_(DLQ_ALERT, self._state.gateway, detail)
        else:
            self._alerts.resolve(DLQ_ALERT, self._state.gateway)
