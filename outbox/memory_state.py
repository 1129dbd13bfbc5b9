"""What the memory store knows, and the operations on it that several of its methods share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias

from outbox.clock import Clock
from outbox.guarding import Members, rule
from outbox.kept import KeptRecord
from outbox.metering import Seen
from outbox.record import Guard, NewBlob, NewRecord, PutOutcome, PutResult, Stamp
from outbox.store import REASON_CHARS_MAX, SIGHTING_CHANNELS_MAX, Sighting

Key: TypeAlias = tuple[str, bytes]

PARKED_AT: Final = datetime.max.replace(tzinfo=UTC)
"""When a record is due that waits for blobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """The newest record under a key, and how many came."""

    count: int
    first_at: datetime
    record: NewRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBlob:
    """A blob whose file is kept; without ``due_at`` it is dead or delivered."""

    rowid: int
    bytes: int
    mime: str
    created_at: datetime
    due_at: datetime | None
    attempts: int = 0
    status: int | None = None
    reason: str = ""
    died_at: datetime | None = None


@dataclass(slots=True, kw_only=True)
class State:
    """The tables of the store, as dictionaries in the order of their rows."""

    clock: Clock
    epoch: str
    number: int = 0
    rowid: int = 0
    rows: dict[int, KeptRecord] = field(default_factory=dict)
    keys: dict[Key, int] = field(default_factory=dict)
    seen: dict[Key, tuple[datetime, Sighting]] = field(default_factory=dict)
    dead: dict[Key, KeptRecord] = field(default_factory=dict)
    last: dict[str, Members] = field(default_factory=dict)
    held: dict[str, Storm] = field(default_factory=dict)
    copies: dict[Key, dict[str, Sighting]] = field(default_factory=dict)
    uncounted: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    """Label and first time of the ids that the meter did not look at yet."""
    blobs: dict[str, KeptBlob] = field(default_factory=dict)
    refs: dict[Key, dict[str, bool]] = field(default_factory=dict)
    """The blobs of waiting and dead records, and whether they are waited for."""

    def copy(self) -> State:
        """For undoing what a failing put has begun."""
        return replace(
            self,
            rows=dict(self.rows),
            keys=dict(self.keys),
            seen=dict(self.seen),
            dead=dict(self.dead),
            last=dict(self.last),
            held=dict(self.held),
            copies={key: dict(channels) for key, channels in self.copies.items()},
            uncounted=dict(self.uncounted),
            blobs=dict(self.blobs),
            refs={key: dict(refs) for key, refs in self.refs.items()},
        )

    def put(self, record: NewRecord) -> PutResult:
        id_ = record.id if isinstance(record.id, str) else None
        if id_ is not None and self.is_known((id_, record.digest)):
            return self._sight(id_, record)
        kept = self.last.get(record.guard.key) if record.guard else None
        ruling = rule(record.guard, kept) if record.guard else None
        if ruling is not None and ruling.suppressed:
            return PutResult(outcome=PutOutcome.SUPPRESSED, id=id_ or "")
        if id_ is None:
            id_ = self.stamped(record)
            if self.is_known((id_, record.digest)):
                return self._sight(id_, record)
        if record.guard is not None and ruling is not None:
            self._keep(record.guard, ruling.keep)
        is_conflict = self.is_known_id(id_)
        if record.channel and not is_conflict:
            self.uncounted[id_] = (record.label, self.clock.now())
        self.insert(id_, record, created_at=self.clock.now())
        return PutResult(outcome=PutOutcome.CONFLICT if is_conflict else PutOutcome.STORED, id=id_)

    def is_known(self, key: Key) -> bool:
        return key in self.keys or key in self.seen or key in self.dead

    def is_known_id(self, id_: str) -> bool:
        """Under any digest."""
        return any(key[0] == id_ for known in (self.keys, self.seen, self.dead) for key in known)

    def stamped(self, record: NewRecord) -> str:
        """The record's id, by a stamp when it is made of one."""
        if isinstance(record.id, str):
            return record.id
        self.number += 1
        return record.id(Stamp(epoch=self.epoch, number=self.number))

    def insert(self, id_: str, record: NewRecord, *, created_at: datetime) -> None:
        self.rowid += 1
        self.refer((id_, record.digest), record.blobs, waits=True)
        self.rows[self.rowid] = KeptRecord(
            rowid=self.rowid,
            id=id_,
            digest=record.digest,
            state="waiting",
            label=record.label,
            channel=record.channel,
            status=None,
            reason="",
            attempts=0,
            created_at=created_at,
            at=PARKED_AT if record.blobs else self.clock.now(),
            body=record.body,
        )
        self.keys[id_, record.digest] = self.rowid

    def refer(self, key: Key, blobs: Sequence[NewBlob], *, waits: bool) -> None:
        """The record waits for these, or keeps them; one that was settled before is asked for again."""
        now = self.clock.now()
        for blob in blobs:
            if blob.sha256 in self.blobs:
                self.again(blob.sha256)
            else:
                self.rowid += 1
                self.blobs[blob.sha256] = KeptBlob(
                    rowid=self.rowid, bytes=blob.bytes, mime=blob.mime, created_at=now, due_at=now
                )
            self.refs.setdefault(key, {}).setdefault(blob.sha256, waits)

    def again(self, sha256: str) -> None:
        """Due now, when it was settled."""
        blob = self.blobs[sha256]
        if blob.due_at is None:
            self.blobs[sha256] = replace(
                blob, due_at=self.clock.now(), attempts=0, status=None, reason="", died_at=None
            )

    def wait_again(self, key: Key) -> None:
        """A dead letter was put back in: it waits for its blobs once more."""
        refs = self.refs.get(key, {})
        for sha256 in refs:
            self.again(sha256)
            refs[sha256] = True
        if refs:
            rowid = self.keys[key]
            self.rows[rowid] = replace(self.rows[rowid], at=PARKED_AT)

    @property
    def bytes(self) -> int:
        """Bodies waiting, and the blobs that are kept, but the dead ones."""
        bodies = sum(len(row.body) for row in self.rows.values())
        return bodies + sum(blob.bytes for blob in self.blobs.values() if blob.died_at is None)

    def bury(self, record: KeptRecord, *, at: datetime) -> None:
        """A dead letter, last in the order of death; nothing is done to a row of its own."""
        self.rowid += 1
        reason = record.reason[:REASON_CHARS_MAX]
        letter = replace(record, rowid=self.rowid, state="dead", reason=reason, at=at)
        self.dead[record.id, record.digest] = letter

    def _keep(self, guard: Guard, members: Members | None) -> None:
        self.last.pop(guard.key, None)
        if members is not None:
            self.last[guard.key] = members

    def _sight(self, id_: str, record: NewRecord) -> PutResult:
        channels = self.copies.setdefault((id_, record.digest), {})
        now, known = self.clock.now(), channels.get(record.channel)
        if known is not None:
            channels[record.channel] = replace(known, last_at=now, times=known.times + 1)
        elif record.channel and len(channels) < SIGHTING_CHANNELS_MAX:
            channels[record.channel] = sighting(record.digest, record.channel, now)
        return PutResult(outcome=PutOutcome.DUPLICATE, id=id_)

    def sightings(self, id_: str) -> list[Sighting]:
        kept = [record for record in (*self.rows.values(), *self.dead.values()) if record.id == id_]
        firsts = [sighting(record.digest, record.channel, record.created_at) for record in kept]
        firsts += [first for key, (_, first) in self.seen.items() if key[0] == id_]
        merged = {(first.digest, first.channel): first for first in firsts if first.channel}
        for key, channels in self.copies.items():
            for channel, copy in channels.items() if key[0] == id_ else ():
                first = merged.get((key[1], channel))
                again = None if first is None else replace(first, last_at=copy.last_at, times=copy.times + 1)
                merged[key[1], channel] = again or copy
        return sorted(merged.values(), key=lambda s: s.first_at)

    def seen_by_now(self, id_: str) -> Seen:
        """What the meter counts of an id that it did not look at yet."""
        label, first_at = self.uncounted[id_]
        channels: dict[str, datetime] = {}
        for sight in self.sightings(id_):
            channels.setdefault(sight.channel, sight.first_at)
        return Seen(label=label, first_at=first_at, channels=channels)

    def forget_dead(self, dead: KeptRecord) -> None:
        del self.dead[dead.id, dead.digest]
        self.copies.pop((dead.id, dead.digest), None)
        if not self.is_known_id(dead.id):
            self.uncounted.pop(dead.id, None)


def sighting(digest: bytes, channel: str, at: datetime) -> Sighting:
    """The first sight of a channel."""
    return Sighting(digest=digest, channel=channel, first_at=at, last_at=at, times=1)
