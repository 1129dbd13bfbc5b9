"""Reads a request's body with a limit for one body and a limit for all that are in flight."""

from __future__ import annotations

import asyncio
from typing import Final

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


async def read_body(scope: Scope, receive: Receive, *, body_bytes_max: int, budget: BodyBudget) -> bytes:
    """The whole body. ``len(body)`` bytes of the budget are taken: the caller gives them back when done.

    Raises BodyTooLarge and BudgetExhausted after the rest was read and dropped (bounded), so that the sender
    reads an answer and not a reset; BodyStalled; ClientGone. Nothing stays taken when it raises.
    """
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = message.get("body", b"")
    if message.get("more_body", False) or len(body) > body_bytes_max:
        return await _read_rest(scope, receive, message, body_bytes_max, budget)
    budget.take(len(body))
    return body


class _Gathering:
    """The chunks of one body, until it is complete or refused; a refused one is only counted."""

    def __init__(self, bytes_max: int, budget: BodyBudget) -> None:
        self._bytes_max, self._budget = bytes_max, budget
        self._chunks: list[bytes] = []
        self.taken = 0
        self.dropped = 0
        self.refusal: BodyError | None = None

    def add(self, chunk: bytes) -> None:
        if self.refusal is None:
            if self.taken + len(chunk) > self._bytes_max:
                self.refuse(BodyTooLarge())
            else:
                try:
                    self._budget.take(len(chunk))
                except BudgetExhausted as refusal:
                    self.refuse(refusal)
                else:
                    self.taken += len(chunk)
                    self._chunks.append(chunk)
                    return
        self.dropped += len(chunk)

    def refuse(self, refusal: BodyError) -> None:
        """Forget what was gathered; the rest will be dropped."""
        self.refusal = refusal
        self._chunks.clear()
        self._budget.give(self.taken)
        self.taken = 0

    def body(self) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        return b"".join(self._chunks)


async def _read_rest(
    scope: Scope, receive: Receive, message: Received, body_bytes_max: int, budget: BodyBudget
) -> bytes:
    gathering = _Gathering(body_bytes_max, budget)
    if _declared(scope) > body_bytes_max:
        gathering.refuse(BodyTooLarge())
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(IDLE_S_MAX) as deadline:
            gathering.add(message.get("body", b""))
            while message.get("more_body", False) and gathering.dropped <= DRAIN_BYTES_MAX:
                message = await receive()
                if message["type"] == "http.disconnect":
                    gathering.refuse(ClientGone())
                    break
                gathering.add(message.get("body", b""))
                deadline.reschedule(loop.time() + IDLE_S_MAX)
    except TimeoutError:
        gathering.refuse(BodyStalled())
    except asyncio.CancelledError:
        gathering.refuse(ClientGone())
        raise
    return gathering.body()


def _declared(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and len(value) < 20:
            return int(value)
    return 0
