"""Carrying records out of the memory store and into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outbox.kept import KeptRecord, KeptState
from outbox.memory_state import State
from outbox.record import NewRecord, PutOutcome
from outbox.store import REASON_CHARS_MAX, DeadRecord


def kept(state: State, which: KeptState, after: int, limit: int, bytes_max: int) -> list[KeptRecord]:
    records = _waiting(state) if which == "waiting" else _dead(state)
    page: list[KeptRecord] = []
    room = bytes_max
    for record in sorted(records, key=lambda record: record.rowid):
        if record.rowid <= after:
            continue
        room -= len(record.body)
        if len(page) == limit or (page and room < 0):
            break
        page.append(record)
    return page


def _waiting(state: State) -> list[KeptRecord]:
    return [
        KeptRecord(
            rowid=row.record.rowid,
            id=row.record.id,
            digest=row.record.digest,
            state="waiting",
            label=row.record.label,
            channel=row.channel,
            status=None,
            reason="",
            attempts=row.record.attempts,
            created_at=row.record.created_at,
            at=row.due_at,
            body=row.record.body,
        )
        for row in state.rows.values()
    ]


def _dead(state: State) -> list[KeptRecord]:
    return [
        KeptRecord(
            rowid=dead.rowid,
            id=dead.id,
            digest=dead.digest,
            state="dead",
            label=dead.label,
            channel=dead.channel,
            status=dead.status,
            reason=dead.reason,
            attempts=dead.attempts,
            created_at=dead.created_at,
            at=dead.died_at,
            body=dead.body or b"",
        )
        for dead in state.dead.values()
    ]


def restore(state: State, records: Sequence[KeptRecord]) -> list[PutOutcome]:
    return [_restore_one(state, record) for record in records]


def _restore_one(state: State, kept: KeptRecord) -> PutOutcome:
    if state.is_known((kept.id, kept.digest)):
        return PutOutcome.DUPLICATE
    is_conflict = any(key[0] == kept.id for known in (state.keys, state.seen, state.dead) for key in known)
    now = state.clock.now()
    created_at = min(kept.created_at, now)
    if kept.state == "waiting":
        record = NewRecord(
            id=kept.id, body=kept.body, digest=kept.digest, channel=kept.channel, label=kept.label
        )
        state.insert(kept.id, record, created_at=created_at)
    else:
        state.rowid += 1
        letter = _letter(kept)
        state.dead[kept.id, kept.digest] = replace(
            letter, rowid=state.rowid, created_at=created_at, died_at=now
        )
    return PutOutcome.CONFLICT if is_conflict else PutOutcome.STORED


def _letter(kept: KeptRecord) -> DeadRecord:
    return DeadRecord(
        rowid=kept.rowid,
        id=kept.id,
        digest=kept.digest,
        label=kept.label,
        channel=kept.channel,
        status=kept.status,
        reason=kept.reason[:REASON_CHARS_MAX],
        attempts=kept.attempts,
        created_at=kept.created_at,
        died_at=kept.at,
        body_bytes=len(kept.body),
        body=kept.body,
    )
