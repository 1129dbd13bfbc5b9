"""Short ways to make records and settlements in this folder's tests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from outbox.clock import Clock
from outbox.postgres.enqueue import DueRecord
from outbox.postgres.store import PostgresStore
from outbox.record import Guard, GuardMode, MakeId, NewBlob, NewRecord, PutOutcome, Record
from outbox.store import Claiming, Queue, Settlement, Store
from outbox.verdict import Verdict

MIB = 1024 * 1024


def new(id_: str | MakeId, body: bytes = b"{}", **more: Any) -> NewRecord:
    return NewRecord(id=id_, body=body, **more)


def guarded(id_: str | MakeId, mode: GuardMode, key: str = "k", **members: bytes) -> NewRecord:
    return NewRecord(id=id_, body=b"{}", guard=Guard(key=key, mode=mode, members=members))


def blob_of(folder: Path, content: bytes, mime: str = "image/jpeg") -> NewBlob:
    """A finished file of its own, as a door leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / uuid4().hex
    path.write_bytes(content)
    return NewBlob(sha256=sha256_of(content), bytes=len(content), mime=mime, path=path)


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def marked_lost(body: bytes, sha256: str, reason: str) -> bytes:
    return body + f"|lost {sha256[:8]}: {reason}".encode()


async def put(queue: Queue, *records: NewRecord) -> list[PutOutcome]:
    """In one transaction, by the way in that this store has."""
    if isinstance(queue, PostgresStore):
        assert not any(record.digest or record.channel or record.guard for record in records)
        return await queue.put(
            [DueRecord(id=str(record.id), body=record.body, label=record.label) for record in records]
        )
    return [result.outcome for result in await cast("Store", queue).put(records)]


async def put_one(queue: Queue, record: NewRecord) -> PutOutcome:
    (outcome,) = await put(queue, record)
    return outcome


async def put_ids(queue: Queue, *ids: str) -> None:
    await put(queue, *(new(id_, f'"{id_}"'.encode()) for id_ in ids))


async def seen(queue: Queue) -> int:
    """How many were delivered and are remembered."""
    if isinstance(queue, PostgresStore):
        async with queue._use() as connection:
            known = await connection.fetchval("SELECT count(*) FROM engine.ids WHERE queue = $1", queue.queue)
        stats = await queue.stats()
        return int(known) - stats.waiting - stats.dead
    return (await cast("Store", queue).stats()).seen


async def claim(store: Claiming, clock: Clock, limit: int = 1_000, bytes_max: int = 64 * MIB) -> list[Record]:
    return await store.claim(now=clock.now(), limit=limit, bytes_max=bytes_max)


def ids(records: Sequence[Record]) -> list[str]:
    return [record.id for record in records]


def ended(record: Record, verdict: Verdict, now: datetime, **more: Any) -> Settlement:
    return Settlement(rowid=record.rowid, lease=record.lease, verdict=verdict, now=now, **more)


async def end_all(store: Claiming, clock: Clock, verdict: Verdict, **more: Any) -> int:
    """Claim all that is due and end it by one verdict."""
    records = await claim(store, clock)
    return await store.settle([ended(record, verdict, clock.now(), **more) for record in records])


def later(clock: Clock, seconds: float) -> datetime:
    return clock.now() + timedelta(seconds=seconds)
