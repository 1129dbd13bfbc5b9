"""A store that forgets everything at the end of the process, with the same behaviour as the durable ones."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from outbox.clock import Clock, SystemClock
from outbox.guarding import Members, rule
from outbox.record import Guard, NewRecord, PutOutcome, PutResult, Record, Stamp
from outbox.store import (
    REASON_CHARS_MAX,
    SIGHTING_CHANNELS_MAX,
    DeadRecord,
    PruneLimits,
    Released,
    Settlement,
    Sighting,
    StoreStats,
    StoreUnavailable,
)
from outbox.verdict import Verdict

Key: TypeAlias = tuple[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    record: Record
    channel: str
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Storm:
    count: int
    first_at: datetime
    id: str
    record: NewRecord


@dataclass(slots=True)
class _State:
    """All that a put may change, so that a failing one can be undone."""

    number: int = 0
    rows: dict[int, _Row] = field(default_factory=dict)
    keys: dict[Key, int] = field(default_factory=dict)
    seen: dict[Key, tuple[datetime, Sighting]] = field(default_factory=dict)
    dead: dict[Key, DeadRecord] = field(default_factory=dict)
    last: dict[str, Members] = field(default_factory=dict)
    held: dict[str, _Storm] = field(default_factory=dict)
    copies: dict[Key, dict[str, Sighting]] = field(default_factory=dict)


class MemoryStore:
    """``Store`` in dictionaries, for tests and for runs that need no durability; every call is linear."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._epoch = secrets.token_hex(8)
        self._state = _State()
        self._meta: dict[str, bytes] = {}
        self._leases: dict[int, int] = {}
        self._lease = 0
        self._rowid = 0
        self._closed = False

    @property
    def epoch(self) -> str:
        return self._epoch

    def _open(self) -> _State:
        if self._closed:
            raise StoreUnavailable("the outbox is closed")
        return self._state

    async def put(self, records: Sequence[NewRecord]) -> list[PutResult]:
        state = self._open()
        before = _State(
            number=state.number,
            rows=dict(state.rows),
            keys=dict(state.keys),
            seen=state.seen,
            dead=state.dead,
            last=dict(state.last),
            held=state.held,
            copies={key: dict(channels) for key, channels in state.copies.items()},
        )
        try:
            return [self._put_one(record) for record in records]
        except BaseException:
            self._state = before
            raise

    def _put_one(self, record: NewRecord) -> PutResult:
        id_ = record.id if isinstance(record.id, str) else None
        if id_ is not None and self._is_known((id_, record.digest)):
            return self._copy(id_, record)
        kept = self._state.last.get(record.guard.key) if record.guard else None
        ruling = rule(record.guard, kept) if record.guard else None
        if ruling is not None and ruling.suppressed:
            return PutResult(outcome=PutOutcome.SUPPRESSED, id=id_ or "")
        if id_ is None:
            id_ = self._stamped(record)
            if self._is_known((id_, record.digest)):
                return self._copy(id_, record)
        if record.guard is not None and ruling is not None:
            self._keep(record.guard, ruling.keep)
        is_conflict = any(
            key[0] == id_ for known in (self._state.keys, self._state.seen, self._state.dead) for key in known
        )
        self._insert(id_, record.digest, record.body, record.label, record.channel, self._clock.now())
        return PutResult(outcome=PutOutcome.CONFLICT if is_conflict else PutOutcome.STORED, id=id_)

    def _is_known(self, key: Key) -> bool:
        return key in self._state.keys or key in self._state.seen or key in self._state.dead

    def _stamped(self, record: NewRecord) -> str:
        if isinstance(record.id, str):
            return record.id
        self._state.number += 1
        return record.id(Stamp(epoch=self._epoch, number=self._state.number))

    def _keep(self, guard: Guard, members: Members | None) -> None:
        self._state.last.pop(guard.key, None)
        if members is not None:
            self._state.last[guard.key] = members

    def _copy(self, id_: str, record: NewRecord) -> PutResult:
        channels = self._state.copies.setdefault((id_, record.digest), {})
        now, known = self._clock.now(), channels.get(record.channel)
        if known is not None:
            channels[record.channel] = replace(known, last_at=now, times=known.times + 1)
        elif record.channel and len(channels) < SIGHTING_CHANNELS_MAX:
            channels[record.channel] = _sighting(record.digest, record.channel, now)
        return PutResult(outcome=PutOutcome.DUPLICATE, id=id_)

    def _insert(
        self, id_: str, digest: bytes, body: bytes, label: str, channel: str, created_at: datetime
    ) -> None:
        self._rowid += 1
        record = Record(
            rowid=self._rowid,
            id=id_,
            digest=digest,
            body=body,
            label=label,
            attempts=0,
            created_at=created_at,
            lease=0,
        )
        self._state.rows[self._rowid] = _Row(record=record, channel=channel, due_at=self._clock.now())
        self._state.keys[id_, digest] = self._rowid

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
        key = (row.record.id, row.record.digest)
        reason = s.reason[:REASON_CHARS_MAX]
        if s.verdict is Verdict.RETRY:
            record = replace(row.record, attempts=row.record.attempts + s.spent)
            state.rows[s.rowid] = replace(row, record=record, due_at=s.due_at or s.now)
            return
        if s.verdict is Verdict.HALT:
            return
        del state.rows[s.rowid], state.keys[key]
        if s.verdict is Verdict.DELIVERED:
            state.seen[key] = (s.now, _sighting(row.record.digest, row.channel, row.record.created_at))
            return
        self._rowid += 1
        state.dead[key] = DeadRecord(
            rowid=self._rowid,
            id=row.record.id,
            digest=row.record.digest,
            label=row.record.label,
            channel=row.channel,
            status=s.status,
            reason=reason,
            attempts=row.record.attempts + 1,
            created_at=row.record.created_at,
            died_at=s.now,
            body_bytes=len(row.record.body),
            body=row.record.body,
        )

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
        )

    async def sightings(self, id: str) -> list[Sighting]:  # noqa: A002
        state = self._open()
        firsts = [
            _sighting(row.record.digest, row.channel, row.record.created_at)
            for row in state.rows.values()
            if row.record.id == id
        ]
        firsts += [first for key, (_, first) in state.seen.items() if key[0] == id]
        firsts += [_sighting(d.digest, d.channel, d.created_at) for d in state.dead.values() if d.id == id]
        merged = {(first.digest, first.channel): first for first in firsts if first.channel}
        for key, channels in state.copies.items():
            for channel, copy in channels.items() if key[0] == id else ():
                first = merged.get((key[1], channel))
                merged[key[1], channel] = (
                    copy if first is None else replace(first, last_at=copy.last_at, times=copy.times + 1)
                )
        return sorted(merged.values(), key=lambda sighting: sighting.first_at)

    async def dead_list(self, *, limit: int, after: int = 0) -> list[DeadRecord]:
        dead = sorted(self._open().dead.values(), key=lambda d: d.rowid)
        return [replace(d, body=None) for d in dead if d.rowid > after][:limit]

    async def dead_show(self, id: str) -> list[DeadRecord]:  # noqa: A002
        return sorted((d for d in self._open().dead.values() if d.id == id), key=lambda d: d.rowid)

    def _dead(self, ids: Sequence[str] | None) -> list[DeadRecord]:
        chosen = self._open().dead.values()
        return sorted((d for d in chosen if ids is None or d.id in ids), key=lambda d: d.rowid)

    async def dead_requeue(self, ids: Sequence[str] | None) -> int:
        chosen = self._dead(ids)
        for d in chosen:
            del self._state.dead[d.id, d.digest]
            self._insert(d.id, d.digest, d.body or b"", d.label, d.channel, d.created_at)
        return len(chosen)

    async def dead_drop(self, ids: Sequence[str] | None) -> int:
        chosen = self._dead(ids)
        for d in chosen:
            self._forget_dead(d)
        return len(chosen)

    def _forget_dead(self, dead: DeadRecord) -> None:
        del self._state.dead[dead.id, dead.digest]
        self._state.copies.pop((dead.id, dead.digest), None)

    async def get_meta(self, key: str) -> bytes | None:
        self._open()
        return self._meta.get(key)

    async def set_meta(self, key: str, value: bytes) -> None:
        self._open()
        self._meta[key] = value

    async def hold(self, key: str, record: NewRecord) -> int:
        held = self._open().held
        storm = held.get(key)
        count = 0 if storm is None else storm.count
        id_ = self._stamped(record)
        is_held = storm is not None and (storm.id, storm.record.digest) == (id_, record.digest)
        if is_held or self._is_known((id_, record.digest)):
            return count
        first_at = self._clock.now() if storm is None else storm.first_at
        held[key] = _Storm(
            count=count + 1, first_at=first_at, id=id_, record=replace(record, id=id_, guard=None)
        )
        return count + 1

    async def release_held(
        self, *, key: str | None = None, before: datetime | None = None, limit: int = 100
    ) -> list[Released]:
        held = self._open().held
        chosen = sorted(
            ((storm.first_at, name) for name, storm in held.items() if key in (None, name)),
            key=lambda s: s[0],
        )
        if key is None:
            chosen = [s for s in chosen if before is None or s[0] < before][:limit]
        storms = [(name, held.pop(name)) for _, name in chosen]
        return [Released(key=name, count=s.count, result=self._put_one(s.record)) for name, s in storms]

    async def prune(self, limits: PruneLimits) -> int:
        state, room = self._open(), limits.rows_per_call_max
        excess = len(state.seen) - limits.seen_rows_max
        seen = [
            key
            for place, (key, (at, _)) in enumerate(list(state.seen.items())[:room])
            if place < excess or at < limits.seen_before
        ]
        for key in seen:
            del state.seen[key]
            state.copies.pop(key, None)
        room -= len(seen)
        exported = [d for d in self._dead(None) if d.rowid <= limits.dead_through][:room]
        excess = len(state.dead) - limits.dead_rows_max
        dead = [d for place, d in enumerate(exported) if place < excess or d.died_at < limits.dead_before]
        for d in dead:
            self._forget_dead(d)
        room -= len(dead)
        last = list(state.last)[: max(0, min(room, len(state.last) - limits.last_rows_max))]
        for name in last:
            del state.last[name]
        return len(seen) + len(dead) + len(last)

    async def checkpoint(self) -> bool:
        self._open()
        return True

    async def close(self) -> None:
        self._closed = True


def _sighting(digest: bytes, channel: str, at: datetime) -> Sighting:
    return Sighting(digest=digest, channel=channel, first_at=at, last_at=at, times=1)
