"""A store with fault points around another one: what it does there is up to the test that wires it in."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeAlias, TypeVar

from outbox.kept import KeptRecord, KeptState
from outbox.record import NewRecord, PutOutcome, PutResult, Record
from outbox.store import DeadRecord, PruneLimits, Released, Settlement, Sighting, Store, StoreStats

T = TypeVar("T")


class FaultPoint(enum.Enum):
    BEFORE_COMMIT = "before commit"
    """Nothing of the call has been done."""
    BEFORE_ANSWER = "before answer"
    """The call has committed; nobody knows yet."""


Trip: TypeAlias = "Callable[[FaultPoint, str], None]"
"""Called with the point and the method's name: may raise, kill the process, or do nothing."""


class FaultyStore:
    """``Store`` that calls ``trip`` before and after every call of the inner one."""

    def __init__(self, inner: Store, trip: Trip) -> None:
        self.inner = inner
        self.trip = trip

    async def _around(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        self.trip(FaultPoint.BEFORE_COMMIT, name)
        result = await call()
        self.trip(FaultPoint.BEFORE_ANSWER, name)
        return result

    @property
    def epoch(self) -> str:
        return self.inner.epoch

    async def put(self, records: Sequence[NewRecord]) -> list[PutResult]:
        return await self._around("put", lambda: self.inner.put(records))

    async def claim(self, *, now: datetime, limit: int, bytes_max: int) -> list[Record]:
        return await self._around(
            "claim", lambda: self.inner.claim(now=now, limit=limit, bytes_max=bytes_max)
        )

    async def settle(self, settlements: Sequence[Settlement]) -> int:
        return await self._around("settle", lambda: self.inner.settle(settlements))

    async def release(self, records: Sequence[Record]) -> int:
        return await self._around("release", lambda: self.inner.release(records))

    async def next_due(self) -> datetime | None:
        return await self._around("next_due", self.inner.next_due)

    async def stats(self) -> StoreStats:
        return await self._around("stats", self.inner.stats)

    async def sightings(self, id: str) -> list[Sighting]:  # noqa: A002
        return await self._around("sightings", lambda: self.inner.sightings(id))

    async def dead_list(self, *, limit: int, after: int = 0) -> list[DeadRecord]:
        return await self._around("dead_list", lambda: self.inner.dead_list(limit=limit, after=after))

    async def dead_show(self, id: str) -> list[DeadRecord]:  # noqa: A002
        return await self._around("dead_show", lambda: self.inner.dead_show(id))

    async def dead_requeue(self, ids: Sequence[str] | None) -> int:
        return await self._around("dead_requeue", lambda: self.inner.dead_requeue(ids))

    async def dead_drop(self, ids: Sequence[str] | None) -> int:
        return await self._around("dead_drop", lambda: self.inner.dead_drop(ids))

    async def kept(self, state: KeptState, *, after: int, limit: int, bytes_max: int) -> list[KeptRecord]:
        return await self._around(
            "kept", lambda: self.inner.kept(state, after=after, limit=limit, bytes_max=bytes_max)
        )

    async def restore(self, records: Sequence[KeptRecord]) -> list[PutOutcome]:
        return await self._around("restore", lambda: self.inner.restore(records))

    async def get_meta(self, key: str) -> bytes | None:
        return await self._around("get_meta", lambda: self.inner.get_meta(key))

    async def set_meta(self, key: str, value: bytes) -> None:
        await self._around("set_meta", lambda: self.inner.set_meta(key, value))

    async def hold(self, key: str, record: NewRecord) -> int:
        return await self._around("hold", lambda: self.inner.hold(key, record))

    async def release_held(
        self, *, key: str | None = None, before: datetime | None = None, limit: int = 100
    ) -> list[Released]:
        return await self._around(
            "release_held", lambda: self.inner.release_held(key=key, before=before, limit=limit)
        )

    async def prune(self, limits: PruneLimits) -> int:
        return await self._around("prune", lambda: self.inner.prune(limits))

    async def checkpoint(self) -> bool:
        return await self._around("checkpoint", self.inner.checkpoint)

    async def close(self) -> None:
        await self.inner.close()
