"""A store that forgets everything at the end of the process, and else behaves as the durable ones."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from outbox import memory_kept
from outbox.blob_files import FOLDER_NAME, BlobFiles
from outbox.blobs import MarkLost, unmarked
from outbox.clock import Clock, SystemClock
from outbox.kept import KeptRecord, KeptState, within_bytes
from outbox.memory_blobs import MemoryBlobs
from outbox.memory_metering import MemoryMetering
from outbox.memory_state import PARKED_AT, State, Storm, sighting
from outbox.record import NewBlob, NewRecord, PutOutcome, PutResult, Record
from outbox.store import (
    REASON_CHARS_MAX,
    DeadRecord,
    PruneLimits,
    Released,
    Settlement,
    Sighting,
    StoreLimits,
    StoreStats,
    StoreUnavailable,
)
from outbox.verdict import Verdict

T = TypeVar("T")


class MemoryStore(MemoryMetering):
    """``Store`` in dictionaries, for tests and for runs that need no durability; its calls are linear."""

    def __init__(
        self,
        clock: Clock | None = None,
        limits: StoreLimits | None = None,
        *,
        folder: Path | None = None,
        mark_lost: MarkLost = unmarked,
    ) -> None:
        """``folder`` is for blobs, which a store without one does not take."""
        super().__init__()
        self._clock = clock or SystemClock()
        self._state = State(clock=self._clock, epoch=secrets.token_hex(8))
        self._limits = limits or StoreLimits()
        self._meta: dict[str, bytes] = {}
        self._leases: dict[int, int] = {}
        self._lease = 0
        self._closed = False
        self._files = None if folder is None else BlobFiles(folder / FOLDER_NAME)
        self._blobs = MemoryBlobs(self._open, self._files, mark_lost)

    @property
    def blobs(self) -> MemoryBlobs:
        return self._blobs

    @property
    def epoch(self) -> str:
        return self._state.epoch

    def _open(self) -> State:
        if self._closed:
            raise StoreUnavailable("the outbox is closed")
        return self._state

    def _all_or_none(self, work: Callable[[State], T]) -> T:
        """Raises StoreFull when ``work`` made records wait and the store was full before."""
        before = self._open().copy()
        waiting, size = len(before.rows), before.bytes
        try:
            done = work(self._state)
            if len(self._state.rows) > waiting:
                self._limits.admit(waiting, size)
        except BaseException:
            self._state = before
            raise
        return done

    async def put(self, records: Sequence[NewRecord]) -> list[PutResult]:
        with self._keeping([blob for record in records for blob in record.blobs]):
            return self._all_or_none(lambda state: [state.put(record) for record in records])

    @contextlib.contextmanager
    def _keeping(self, blobs: Sequence[NewBlob]) -> Iterator[None]:
        if blobs:
            assert self._files is not None, "a store without a folder takes no blobs"
            self._files.keep(blobs)
        try:
            yield
        finally:
            self._blobs.drop_files(blob.sha256 for blob in blobs)

    async def claim(self, *, now: datetime, limit: int, bytes_max: int) -> list[Record]:
        state = self._open()
        self._lease += 1
        due = [row for rowid, row in state.rows.items() if row.at <= now and rowid not in self._leases]
        due.sort(key=lambda row: (row.at, row.rowid))
        claimed = list(within_bytes(due[:limit], bytes_max, lambda row: row.body))
        self._leases.update((row.rowid, self._lease) for row in claimed)
        return [
            Record(
                rowid=row.rowid,
                id=row.id,
                digest=row.digest,
                body=row.body,
                label=row.label,
                attempts=row.attempts,
                created_at=row.created_at,
                lease=self._lease,
            )
            for row in claimed
        ]

    def still_held(self, record: Record) -> bool:
        return self._leases.get(record.rowid) == record.lease

    def _unlease(self, rowid: int, lease: int) -> bool:
        return self._leases.get(rowid) == lease and self._leases.pop(rowid) == lease

    async def settle(self, settlements: Sequence[Settlement]) -> int:
        self._open()
        held = [s for s in settlements if self._unlease(s.rowid, s.lease)]
        for s in held:
            self._settle_one(s)
        return len(held)

    def _settle_one(self, s: Settlement) -> None:
        state, row = self._state, self._state.rows[s.rowid]
        tried = replace(
            row, attempts=row.attempts + s.spent, status=s.status, reason=s.reason[:REASON_CHARS_MAX]
        )
        match s.verdict:
            case Verdict.HALT:
                return
            case Verdict.RETRY:
                state.rows[s.rowid] = replace(tried, at=s.due_at or s.now)
                return
            case Verdict.DELIVERED:
                state.seen[row.id, row.digest] = (s.now, sighting(row.digest, row.channel, row.created_at))
                self._blobs.unrefer((row.id, row.digest))
            case Verdict.DEAD:
                state.bury(replace(tried, attempts=row.attempts + 1), at=s.now)
        del state.rows[s.rowid], state.keys[row.id, row.digest]

    async def release(self, records: Sequence[Record]) -> int:
        self._open()
        return sum(self._unlease(record.rowid, record.lease) for record in records)

    async def next_due(self) -> datetime | None:
        rows = [row for rowid, row in self._open().rows.items() if rowid not in self._leases]
        return min((row.at for row in rows if row.at < PARKED_AT), default=None)

    async def stats(self) -> StoreStats:
        state = self._open()
        records = list(state.rows.values())
        return StoreStats(
            waiting=len(records),
            claimed=len(self._leases),
            dead=len(state.dead),
            seen=len(state.seen),
            held=len(state.held),
            oldest_at=records[0].created_at if records else None,
            bytes=state.bytes,
            file_bytes=0,
            wal_bytes=0,
            blobs_waiting=sum(blob.due_at is not None for blob in state.blobs.values()),
            blobs_dead=sum(blob.died_at is not None for blob in state.blobs.values()),
        )

    async def sightings(self, record_id: str) -> list[Sighting]:
        return self._open().sightings(record_id)

    def _dead(self, ids: Sequence[str] | None) -> list[KeptRecord]:
        dead = self._open().dead.values()
        return sorted((d for d in dead if ids is None or d.id in ids), key=lambda d: d.rowid)

    async def dead_list(self, *, limit: int, after: int = 0) -> list[DeadRecord]:
        dead = [d for d in self._dead(None) if d.rowid > after]
        return [replace(_dead_record(d), body=None) for d in dead[:limit]]

    async def dead_show(self, record_id: str) -> list[DeadRecord]:
        return [_dead_record(d) for d in self._dead([record_id])]

    async def dead_requeue(self, ids: Sequence[str] | None) -> int:
        chosen = self._dead(ids)
        for d in chosen:
            del self._state.dead[d.id, d.digest]
            again = NewRecord(id=d.id, body=d.body, digest=d.digest, channel=d.channel, label=d.label)
            self._state.insert(d.id, again, created_at=d.created_at)
            self._state.wait_again((d.id, d.digest))
        return len(chosen)

    async def dead_drop(self, ids: Sequence[str] | None) -> int:
        chosen = self._dead(ids)
        for d in chosen:
            self._forget_dead(d)
        return len(chosen)

    def _forget_dead(self, dead: KeptRecord) -> None:
        self._state.forget_dead(dead)
        self._blobs.unrefer((dead.id, dead.digest))

    async def kept(self, state: KeptState, *, after: int, limit: int, bytes_max: int) -> list[KeptRecord]:
        records = memory_kept.kept(self._open(), state, after, limit, bytes_max)
        return [
            replace(record, blobs=self._blobs.of_record((record.id, record.digest))) for record in records
        ]

    async def restore(self, records: Sequence[KeptRecord]) -> list[PutOutcome]:
        with self._keeping([blob for record in records for blob in record.blobs]):
            return self._all_or_none(lambda state: memory_kept.restore(state, records))

    async def get_meta(self, key: str) -> bytes | None:
        self._open()
        return self._meta.get(key)

    async def set_meta(self, key: str, value: bytes) -> None:
        self._open()
        self._meta[key] = value

    async def hold(self, key: str, record: NewRecord) -> int:
        state = self._open()
        storm = state.held.get(key)
        count = 0 if storm is None else storm.count
        assert not record.blobs, "what is held would lose its blobs"
        made = replace(record, id=state.stamped(record), guard=None)
        assert isinstance(made.id, str)
        is_held = storm is not None and (storm.record.id, storm.record.digest) == (made.id, made.digest)
        if is_held or state.is_known((made.id, made.digest)):
            return count
        first_at = self._clock.now() if storm is None else storm.first_at
        state.held[key] = Storm(count=count + 1, first_at=first_at, record=made)
        return count + 1

    async def release_held(
        self, *, key: str | None = None, before: datetime | None = None, limit: int = 100
    ) -> list[Released]:
        held = self._open().held
        due = [name for name, storm in held.items() if before is None or storm.first_at < before]
        names = [name for name in held if name == key] if key is not None else due[:limit]
        storms = [(name, held.pop(name)) for name in names]
        return [
            Released(key=name, count=storm.count, result=self._state.put(storm.record))
            for name, storm in storms
        ]

    async def prune(self, limits: PruneLimits) -> int:
        state, room = self._open(), limits.rows_per_call_max
        exported = [d for d in self._dead(None) if d.rowid <= limits.dead_through][:room]
        excess = len(state.dead) - limits.dead_rows_max
        dead = [d for place, d in enumerate(exported) if place < excess or d.at < limits.dead_before]
        for d in dead:
            self._forget_dead(d)
        room -= len(dead)
        excess = len(state.seen) - limits.seen_rows_max
        oldest = list(state.seen.items())[:room]
        seen = [k for place, (k, (at, _)) in enumerate(oldest) if place < excess or at < limits.seen_before]
        for key in seen:
            del state.seen[key]
            state.copies.pop(key, None)
        room -= len(seen)
        last = list(state.last)[: max(0, min(room, len(state.last) - limits.last_rows_max))]
        for name in last:
            del state.last[name]
        return len(seen) + len(dead) + len(last)

    async def checkpoint(self) -> bool:
        self._open()
        return True

    async def close(self) -> None:
        self._closed = True


def _dead_record(dead: KeptRecord) -> DeadRecord:
    return DeadRecord(
        rowid=dead.rowid,
        id=dead.id,
        digest=dead.digest,
        label=dead.label,
        channel=dead.channel,
        status=dead.status,
        reason=dead.reason,
        attempts=dead.attempts,
        created_at=dead.created_at,
        died_at=dead.at,
        body_bytes=len(dead.body),
        body=dead.body,
    )
