"""Carrying records out of the memory store and into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from outbox.kept import KeptRecord, KeptState, within_bytes
from outbox.memory_state import PARKED_AT, State
from outbox.record import NewRecord, PutOutcome


def kept(state: State, which: KeptState, after: int, limit: int, bytes_max: int) -> list[KeptRecord]:
    records: Iterable[KeptRecord] = state.rows.values() if which == "waiting" else state.dead.values()
    ahead = sorted((r for r in records if r.rowid > after), key=lambda r: r.rowid)
    page = within_bytes(ahead[:limit], bytes_max, lambda record: record.body)
    return [replace(record, at=record.created_at) if record.at == PARKED_AT else record for record in page]


def restore(state: State, records: Sequence[KeptRecord]) -> list[PutOutcome]:
    return [_restore_one(state, record) for record in records]


def _restore_one(state: State, kept: KeptRecord) -> PutOutcome:
    if state.is_known((kept.id, kept.digest)):
        return PutOutcome.DUPLICATE
    is_conflict = state.is_known_id(kept.id)
    now = state.clock.now()
    created_at = min(kept.created_at, now)
    if kept.state == "waiting":
        record = NewRecord(
            id=kept.id,
            body=kept.body,
            digest=kept.digest,
            channel=kept.channel,
            label=kept.label,
            blobs=kept.blobs,
        )
        state.insert(kept.id, record, created_at=created_at)
    else:
        state.bury(replace(kept, created_at=created_at, blobs=()), at=now)
        state.refer((kept.id, kept.digest), kept.blobs, waits=False)
    return PutOutcome.CONFLICT if is_conflict else PutOutcome.STORED
