"""Who may post, and how much: the signature over the bytes as received, a sender's rate, the inflating."""

from __future__ import annotations

import asyncio
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from asgi.body import BodyBudget
from asgi.inflate import DamagedStream, inflating
from asgi.types import Scope
from contracts.signing import verify
from ingest.problems import BAD_COMPRESSION, BAD_EVENT_ID, UNKNOWN_ENCODING, UNSIGNED, ProblemError
from ingest.reading import is_event_id

COLLECTOR_CHARS_MAX: Final = 200

_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_HEADERS: Final = frozenset((b"x-event-id", b"x-signature", b"x-collector", b"content-encoding"))


class Sender:
    """The headers that matter; a header that came twice counts as a wrong one."""

    __slots__ = ("collector", "encoding", "event_id", "signature")

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.event_id: str | None = None
        self.signature: str | None = None
        self.collector: str | None = None
        self.encoding: str | None = None
        for name, value in headers:
            if name not in _HEADERS:
                continue
            text = value.decode("latin-1")
            if name == b"x-event-id":
                self.event_id = text if self.event_id is None else ""
            elif name == b"x-signature":
                self.signature = text if self.signature is None else ""
            elif name == b"x-collector":
                self.collector = text[:COLLECTOR_CHARS_MAX] or None
            else:
                self.encoding = text.strip().lower() if self.encoding is None else f"{self.encoding}, {text}"


def admit(sender: Sender, secrets: Sequence[bytes], body: bytes) -> str:
    """The event id, lower-case, when the signature over the bytes as received is right.

    Raises ProblemError: 401 for every fault of the signature alike; 400 when the id is missing or, with a
    right signature, no UUID.
    """
    if not sender.signature:
        raise ProblemError(UNSIGNED)
    if not sender.event_id:
        raise ProblemError(BAD_EVENT_ID, "X-Event-Id is missing, empty or there twice.")
    if not verify(secrets, sender.event_id, body, sender.signature):
        raise ProblemError(UNSIGNED)
    event_id = sender.event_id.lower()
    if not is_event_id(event_id):
        raise ProblemError(BAD_EVENT_ID, "X-Event-Id is no UUID.")
    return event_id


async def inflate(body: bytes, encoding: str, *, bytes_max: int, budget: BodyBudget) -> bytes:
    """The decompressed body; ``len(result) - len(body)`` more bytes of the budget are taken (or given back).

    Raises ProblemError for an unknown encoding or broken data, BodyTooLarge, BudgetExhausted.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ProblemError(UNKNOWN_ENCODING, "Known are gzip, deflate and identity.")
    is_raw = encoding == "deflate" and not _has_zlib_header(body)
    wbits = -zlib.MAX_WBITS if is_raw else _GZIP_OR_ZLIB
    taken = 0
    chunks: list[bytes] = []
    try:
        for chunk in inflating(body, wbits=wbits, bytes_max=bytes_max):
            budget.take(len(chunk))
            taken += len(chunk)
            chunks.append(chunk)
            if len(chunks) > 1:  # a large body: other requests get their turn
                await asyncio.sleep(0)
    except DamagedStream:
        budget.give(taken)
        raise ProblemError(BAD_COMPRESSION) from None
    except BaseException:
        budget.give(taken)
        raise
    budget.give(len(body))
    return b"".join(chunks)


def _has_zlib_header(body: bytes) -> bool:
    return len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0


class Rates:
    """A bucket of events a sender; a batch may go into debt, so that no batch is too big for its bucket."""

    def __init__(self, *, events_per_s: float, burst: int, senders_max: int) -> None:
        self._events_per_s, self._burst, self._senders_max = events_per_s, burst, senders_max
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, sender: str, events: int, now: float) -> float:
        """0 when the events are let through, else the seconds until the sender may try again.

        ``now`` is ``time.monotonic()``.
        """
        left, at = self._buckets.pop(sender, (float(self._burst), now))
        left = min(float(self._burst), left + (now - at) * self._events_per_s)
        wait = 0.0 if left >= 1 else (1.0 - left) / self._events_per_s
        self._buckets[sender] = (left if wait else left - events, now)
        while len(self._buckets) > self._senders_max:
            self._buckets.popitem(last=False)
        return wait


def sender_name(sender: Sender, scope: Scope) -> str:
    """Whose rate it is: the collector's name, else the address."""
    if sender.collector is not None:
        return f"collector:{sender.collector}"
    client = scope.get("client")
    return f"address:{client[0]}" if client else "address:"
