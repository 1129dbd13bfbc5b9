"""A store that forgets everything at the end of the process, and else behaves as the durable ones."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from outbox import memory_kept
from outbox.clock import Clock, SystemClock
from outbox.kept import KeptRecord, KeptState
from outbox.memory_state import State, Storm, sighting
from outbox.record import NewRecord, PutOutcome, PutResult, Record
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


class MemoryStore:
    """``Store`` in dictionaries, for tests and for runs that need no durability; its calls are linear."""

    def __init__(self, clock: Clock | None = None, limits: StoreLimits | None = None) -> None:
        self._clock = clock or SystemClock()
        self._state = State(clock=self._clock, epoch=secrets.token_hex(8))
        self._limits = limits or StoreLimits()
        self._meta: dict[str, bytes] = {}
        self._leases: dict[int, int] = {}
        self._lease = 0
        self._closed = False

    @property
    def epoch(self) -> str:
        return self._state.epoch

    def _open(self) -> State:
        if self._closed:
            raise StoreUnavailable("the outbox is closed")
        return self._state

    async def put(self, records: Sequence[NewRecord]) -> list[PutResult]:
        before = self._open().copy()
        waiting = [len(row.record.body) for row in before.rows.values()]
        is_full = self._limits.share(len(waiting), sum(waiting)) >= 1
        try:
            results = [self._state.put(record) for record in records]
            if is_full and len(self._state.rows) > len(waiting):
                self._limits.admit(len(waiting), sum(waiting))
        except BaseException:
            self._state = before
            raise
        return results

    async def claim(self, *, now: datetime, limit: int, bytes_max: int) -> list[Record]:
        state = self._open()
        self._lease += 1
        due = [row for rowid, row in state.rows.items() if row.due_at <= now and rowid not in self._leases]
        due.sort(key=lambda row: (row.due_at, row.record.rowid))
        claimed: list[Record] = []
        room = bytes_max
        for row in due[:limit]:
            room -= len(row.record.body)
            if claimed and room < 0:
                break
            claimed.append(replace(row.record, lease=self._lease))
            self._leases[row.record.rowid] = self._lease
        return claimed

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
        waiting = row.record
        match s.verdict:
            case Verdict.HALT:
                return
            case Verdict.RETRY:
                record = replace(waiting, attempts=waiting.attempts + s.spent)
                state.rows[s.rowid] = replace(row, record=record, due_at=s.due_at or s.now)
                return
            case Verdict.DELIVERED:
                first = sighting(waiting.digest, row.channel, waiting.created_at)
                state.seen[waiting.id, waiting.digest] = (s.now, first)
            case Verdict.DEAD:
                state.rowid += 1
                state.dead[waiting.id, waiting.digest] = DeadRecord(
                    rowid=state.rowid,
                    id=waiting.id,
                    digest=waiting.digest,
                    label=waiting.label,
                    channel=row.channel,
                    status=s.status,
                    reason=s.reason[:REASON_CHARS_MAX],
                    attempts=waiting.attempts + 1,
                    created_at=waiting.created_at,
                    died_at=s.now,
                    body_bytes=len(waiting.body),
                    body=waiting.body,
                )
        del state.rows[s.rowid], state.keys[waiting.id, waiting.digest]

    async def release(self, records: Sequence[Record]) -> int:
        self._open()
        return sum(self._unlease(record.rowid, record.lease) for record in records)

    async def next_due(self) -> datetime | None:
        rows = self._open().rows.items()
        return min((row.due_at for rowid, row in rows if rowid not in self._leases), default=None)

    async def stats(self) -> StoreStats:
        state = self._open()
        records = [row.record for row in state.rows.values()]
        return StoreStats(
            waiting=len(records),
            claimed=len(self._leases),
            dead=len(state.dead),
            seen=len(state.seen),
            held=len(state.held),
            oldest_at=records[0].created_at if records else None,
            bytes=sum(len(record.body) for record in records),
            file_bytes=0,
            wal_bytes=0,
        )

    async def sightings(self, record_id: str) -> list[Sighting]:
        return self._open().sightings(record_id)

    def _dead(self, ids: Sequence[str] | None) -> list[DeadRecord]:
        dead = self._open().dead.values()
        return sorted((d for d in dead if ids is None or d.id in ids), key=lambda d: d.rowid)

    async def dead_list(self, *, limit: int, after: int = 0) -> list[DeadRecord]:
        return [replace(d, body=None) for d in self._dead(None) if d.rowid > after][:limit]

    async def dead_show(self, record_id: str) -> list[DeadRecord]:
        return self._dead([record_id])

    async def dead_requeue(self, ids: Sequence[str] | None) -> int:
        chosen = self._dead(ids)
        for d in chosen:
            del self._state.dead[d.id, d.digest]
            again = NewRecord(id=d.id, body=d.body or b"", digest=d.digest, channel=d.channel, label=d.label)
            self._state.insert(d.id, again, created_at=d.created_at)
        return len(chosen)

    async def dead_drop(self, ids: Sequence[str] | None) -> int:
        chosen = self._dead(ids)
        for d in chosen:
            self._state.forget_dead(d)
        return len(chosen)

    async def kept(self, state: KeptState, *, after: int, limit: int, bytes_max: int) -> list[KeptRecord]:
        return memory_kept.kept(self._open(), state, after, limit, bytes_max)

    async def restore(self, records: Sequence[KeptRecord]) -> list[PutOutcome]:
        before = self._open().copy()
        waiting = [len(row.record.body) for row in before.rows.values()]
        try:
            outcomes = memory_kept.restore(self._state, records)
            if len(self._state.rows) > len(waiting):
                self._limits.admit(len(waiting), sum(waiting))
        except BaseException:
            self._state = before
            raise
        return outcomes

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
        dead = [d for place, d in enumerate(exported) if place < excess or d.died_at < limits.dead_before]
        for d in dead:
            state.forget_dead(d)
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
