"""Reads a request's body with a limit for one body and a limit for all that are in flight."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from asgi.types import Receive, Received, Scope

DRAIN_BYTES_MAX: Final = 256 * 1024 * 1024
"""How much of a refused body is read and thrown away, so that its sender reads the answer."""
IDLE_S_MAX: Final = 20.0
"""How long a body may stand still."""


class BodyError(Exception):
    """A body was not taken."""


class BodyTooLarge(BodyError):
    """One body is above its limit (answer 413)."""


class BudgetExhausted(BodyError):
    """All bodies in flight together are above their limit (answer 503)."""


class BodyStalled(BodyError):
    """The sender stopped in the middle of a body (answer 408)."""


class ClientGone(BodyError):
    """The sender left before its body was complete: nobody waits for an answer."""


class BodyBudget:
    """Counts the body bytes that are in flight; refuses what would go above the total."""

    __slots__ = ("bytes_used", "total_bytes_max")

    def __init__(self, total_bytes_max: int) -> None:
        self.total_bytes_max = total_bytes_max
        self.bytes_used = 0

    def take(self, size: int) -> None:
        """Add ``size`` bytes, or raise BudgetExhausted and add none."""
        if self.bytes_used + size > self.total_bytes_max:
            raise BudgetExhausted
        self.bytes_used += size

    def give(self, size: int) -> None:
        """Return ``size`` bytes that were taken."""
        self.bytes_used -= size
        assert self.bytes_used >= 0, "more bytes given back than taken"


class Taker(Protocol):
    """What the chunks of one body are handed to."""

    async def add(self, chunk: bytes) -> None:
        """Take the next chunk. A BodyError refuses the body."""
        ...

    def drop(self) -> None:
        """Forget what was taken: the body is refused, or will never be complete."""
        ...


async def read_body(scope: Scope, receive: Receive, *, body_bytes_max: int, budget: BodyBudget) -> bytes:
    """The whole body. ``len(body)`` bytes of the budget are taken: the caller gives them back when done.

    Raises as `hand_over` does, and BudgetExhausted. Nothing stays taken when it raises.
    """
    first = await first_chunk(receive)
    return await read_from(scope, receive, first, body_bytes_max=body_bytes_max, budget=budget)


async def read_from(
    scope: Scope, receive: Receive, first: Received, *, body_bytes_max: int, budget: BodyBudget
) -> bytes:
    """The same when the first message is there already."""
    if not is_whole(first, body_bytes_max):
        gathering = _Gathering(budget)
        await hand_over(scope, receive, first, gathering, body_bytes_max=body_bytes_max)
        return gathering.body()
    body: bytes = first.get("body", b"")
    budget.take(len(body))
    return body


async def first_chunk(receive: Receive) -> Received:
    """The message with the body's beginning. Raises ClientGone."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message


def is_whole(first: Received, body_bytes_max: int) -> bool:
    """True when the first message holds the whole body and that is within the limit."""
    return not first.get("more_body", False) and len(first.get("body", b"")) <= body_bytes_max


async def hand_over(
    scope: Scope, receive: Receive, first: Received, taker: Taker, *, body_bytes_max: int
) -> None:
    """Hand a body over chunk by chunk, beginning with the first message.

    Raises BodyTooLarge, and the BodyError of the taker, after the rest was read and dropped (bounded), so
    that the sender reads an answer and not a reset; BodyStalled; ClientGone; what else the taker raises. When
    it raises, the taker was told to drop.
    """
    refusal: BodyError | None = BodyTooLarge() if _declared(scope) > body_bytes_max else None
    size = dropped = 0
    message = first
    try:
        while True:
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if refusal is None:
                refusal = await _add(taker, chunk) if size <= body_bytes_max else BodyTooLarge()
            if refusal is not None:
                taker.drop()
                dropped += len(chunk)
            if not message.get("more_body", False) or dropped > DRAIN_BYTES_MAX:
                break
            message = await _next(receive)
    except BaseException:
        taker.drop()
        raise
    if refusal is not None:
        raise refusal


async def _add(taker: Taker, chunk: bytes) -> BodyError | None:
    try:
        await taker.add(chunk)
    except BodyError as refusal:
        return refusal
    return None


async def _next(receive: Receive) -> Received:
    try:
        async with asyncio.timeout(IDLE_S_MAX):
            return await first_chunk(receive)
    except TimeoutError:
        raise BodyStalled from None


class _Gathering:
    """The chunks of one body in memory."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._chunks: list[bytes] = []
        self._taken = 0

    async def add(self, chunk: bytes) -> None:
        self._budget.take(len(chunk))
        self._taken += len(chunk)
        self._chunks.append(chunk)

    def drop(self) -> None:
        self._chunks.clear()
        self._budget.give(self._taken)
        self._taken = 0

    def body(self) -> bytes:
        return b"".join(self._chunks)


def _declared(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and len(value) < 20:
            return int(value)
    return 0
