"""Carrying records out of the SQLite store and into it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from outbox import sqlite_blobs
from outbox import sqlite_statements as sql
from outbox.kept import KeptRecord, KeptState, within_bytes
from outbox.record import NewRecord, PutOutcome
from outbox.sqlite_blob_statements import PARKED
from outbox.sqlite_damage import OPTIONAL_INT, as_us, from_us, typed_rows
from outbox.sqlite_engine import SqliteEngine
from outbox.sqlite_values import text
from outbox.store import REASON_CHARS_MAX

_PAGES: Final[dict[KeptState, str]] = {"waiting": sql.KEPT_WAITING, "dead": sql.KEPT_DEAD}
_KEPT: Final = (int, int, str, bytes, str, str, OPTIONAL_INT, str, int, int, int, bytes)


def kept(engine: SqliteEngine, state: KeptState, after: int, limit: int, bytes_max: int) -> list[KeptRecord]:
    rows = engine.connection.execute(_PAGES[state], (after, limit))
    page = list(within_bytes(typed_rows(rows, _KEPT), bytes_max, itemgetter(-1)))
    rows.close()
    return [_kept_record(engine, state, row) for row in page]


def _kept_record(engine: SqliteEngine, state: KeptState, row: tuple[Any, ...]) -> KeptRecord:
    rowid, of, id_, digest, label, channel, status, reason, attempts, created_at, at, body = row
    return KeptRecord(
        rowid=rowid,
        id=id_,
        digest=digest,
        state=state,
        label=label,
        channel=channel,
        status=status,
        reason=reason,
        attempts=attempts,
        created_at=from_us(created_at),
        at=from_us(created_at if at == PARKED else at),
        body=body,
        blobs=sqlite_blobs.of_record(engine, of) if engine.ledger.blobs else (),
    )


def restore(engine: SqliteEngine, records: Sequence[KeptRecord]) -> list[PutOutcome]:
    now = as_us(engine.clock.now())
    before = (engine.ledger.waiting, engine.ledger.bytes)
    return [_restore_one(engine, record, now, before) for record in records]


def _restore_one(engine: SqliteEngine, kept: KeptRecord, now: int, before: tuple[int, int]) -> PutOutcome:
    digests = engine.known(kept.id)
    if kept.digest in digests:
        return PutOutcome.DUPLICATE
    created_at = min(as_us(kept.created_at), now)
    if kept.state == "waiting":
        engine.limits.admit(*before)
        record = NewRecord(
            id=kept.id,
            body=kept.body,
            digest=kept.digest,
            channel=kept.channel,
            label=kept.label,
            blobs=kept.blobs,
        )
        engine.insert(kept.id, record, due_at=now, created_at=created_at, label_id=None)
    else:
        named = (kept.id, kept.digest, text(kept.channel), created_at, None)
        of = engine.connection.execute(sql.INSERT_ID, named).lastrowid
        reason, label = text(kept.reason, REASON_CHARS_MAX), text(kept.label)
        letter = (of, now, kept.attempts, kept.status, reason, label, kept.body)
        engine.connection.execute(sql.INSERT_DEAD, letter)
        engine.ledger.dead += 1
        assert of is not None
        sqlite_blobs.refer(engine, of, kept.blobs, now, waits=False)
    return PutOutcome.CONFLICT if digests else PutOutcome.STORED
