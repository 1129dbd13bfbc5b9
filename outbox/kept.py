"""What a store holds, to be carried away and brought elsewhere: a page out, a page in, nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias, TypeVar

from outbox.record import NewBlob, PutOutcome

T = TypeVar("T")

KeptState: TypeAlias = Literal["waiting", "dead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRecord:
    """A waiting record or a dead letter with all that the store knows of it, but its leases."""

    rowid: int
    """The place in its own store; pages go by it."""
    id: str
    digest: bytes
    state: KeptState
    label: str
    channel: str
    status: int | None
    """The last answer, and in ``reason`` what it meant; None and empty before the first try."""
    reason: str
    attempts: int
    created_at: datetime
    at: datetime
    """When it is due, or when it died; of what waits for blobs, when it was created."""
    body: bytes
    blobs: tuple[NewBlob, ...] = ()
    """With the store's own files; whoever restores them elsewhere brings copies."""


class Keeping(Protocol):
    """A store whose records can be carried elsewhere."""

    async def kept(self, state: KeptState, *, after: int, limit: int, bytes_max: int) -> list[KeptRecord]:
        """Up to ``limit`` records with rowid above ``after``, in order; the first may be above
        ``bytes_max`` alone. A record that changes its state between two pages may be missed or come twice.
        """
        ...

    async def restore(self, records: Sequence[KeptRecord]) -> list[PutOutcome]:
        """Put all or none, each in its state. A copy (id and digest known in any state) changes nothing.

        Blobs are taken over as in a put. A waiting record waits for them, and is
        else due now with attempts 0; a dead letter's time begins now. No guard is asked, and
        the moment of creation is kept, unless it lies ahead of this store's clock. Raises StoreFull when
        something would have to wait and the store was full before.
        """
        ...


def within_bytes(rows: Iterable[T], bytes_max: int, body_of: Callable[[T], bytes]) -> Iterator[T]:
    """The first rows whose bodies have ``bytes_max`` together; the very first may have more alone."""
    room = bytes_max
    for number, row in enumerate(rows):
        room -= len(body_of(row))
        if number and room < 0:
            return
        yield row
