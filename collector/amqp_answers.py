"""How long a RabbitMQ has to answer, and what its client library raises, as errors of ours."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from aio_pika.exceptions import (
    CONNECTION_EXCEPTIONS,
    AuthenticationError,
    ChannelPreconditionFailed,
    ProbableAuthenticationError,
)
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource

ANSWER_S_MAX: Final = 8.0
"""A broker that has just been started may never answer a request that came before its queues had leaders."""
BEHIND_S_MAX: Final = 30.0
"""An answer may come behind so many seconds of deliveries that were sent before it."""

_REFUSALS: Final = (ChannelPreconditionFailed, ChannelAccessRefused, ChannelLockedResource)


class BrokerGone(Exception):
    """The connection, a channel or a consumer is no more; a new connection may heal it."""


class BrokerRefuses(Exception):
    """The broker will not do it until a person changes something; the message is the broker's."""


@contextlib.asynccontextmanager
async def answered(longer_s: float = 0.0) -> AsyncIterator[asyncio.Timeout]:
    """What the library raises, as ours, and BrokerGone when it takes too long: not all it does has a limit.

    It lets a CancelledError out when a connection dies, which is none, and other errors when one is.
    """
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(ANSWER_S_MAX + longer_s) as limit:
            yield limit
    except _REFUSALS as error:
        raise BrokerRefuses(told(error)) from error
    except (AuthenticationError, ProbableAuthenticationError) as error:
        raise BrokerGone("the broker refuses our user or password") from error
    except (TimeoutError, *CONNECTION_EXCEPTIONS) as error:
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from error
        raise BrokerGone(told(error)) from error
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise
        raise BrokerGone("the connection died") from error
    except Exception as error:  # whatever the library makes of what the broker does: it is never our end
        raise BrokerGone(told(error)) from error


def told(error: BaseException | None) -> str:
    """What went wrong, for people: the broker's words, else the kind. Addresses and credentials stay out."""
    if isinstance(error, _REFUSALS):
        return str(error)[:300]
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__ if error is not None else "in order"


class Reading:
    """Whether anything is read of one connection: an answer that waits there unread is not late."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._on = asyncio.Event()
        self._on.set()
        self._limits: dict[asyncio.Timeout, float] = {}

    def pause(self) -> None:
        """Until ``resume`` nothing is read of the whole connection, heartbeats neither."""
        self._on.clear()
        for limit in self._limits:
            _move(limit, None)

    def resume(self) -> None:
        """Reads on; who waits for an answer waits as long as from the start."""
        if self._on.is_set():
            return
        self._on.set()
        for limit in self._limits:
            _move(limit, self._loop.time() + ANSWER_S_MAX)

    async def room(self) -> None:
        """Waits until it reads; for each frame of a delivery, which shows that the broker lives."""
        await self._on.wait()
        now_s = self._loop.time()
        for limit, begun_s in self._limits.items():
            if now_s - begun_s < BEHIND_S_MAX:
                _move(limit, now_s + ANSWER_S_MAX)

    @contextlib.asynccontextmanager
    async def answered(self) -> AsyncIterator[None]:
        """As ``answered``, for a request whose answer may come behind deliveries or wait unread."""
        async with answered() as limit:
            self._limits[limit] = self._loop.time()
            if not self._on.is_set():
                _move(limit, None)
            try:
                yield
            finally:
                del self._limits[limit]


def _move(limit: asyncio.Timeout, when_s: float | None) -> None:
    """One that has run out stays so, also in the moment before its task learns of it."""
    if not limit.expired():
        limit.reschedule(when_s)
