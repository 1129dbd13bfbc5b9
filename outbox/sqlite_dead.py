"""Dead letters, held storms and forgetting: the SQLite store's operations off the hot path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from outbox import sqlite_blobs
from outbox import sqlite_metering_statements as metering
from outbox import sqlite_statements as sql
from outbox.record import NewRecord
from outbox.sqlite_damage import OPTIONAL_INT, as_us, from_us, key_text, typed, typed_rows
from outbox.sqlite_engine import SqliteEngine
from outbox.sqlite_values import as_json, key_bytes, text
from outbox.store import DeadRecord, PruneLimits, Released

ROWS_PER_STATEMENT: Final = 500
"""Dead letters that one statement moves or drops."""

_DEAD: Final = (int, str, bytes, str, str, OPTIONAL_INT, str, int, int, int, int, (bytes, type(None)))
_REQUEUED: Final = (int, str, bytes, str, int, OPTIONAL_INT, str, bytes)
_HELD: Final = (bytes, int, str, bytes, str, str, bytes)


def _dead_record(row: tuple[Any, ...]) -> DeadRecord:
    rowid, id_, digest, label, channel, status, reason, attempts, created_at, at, size, body = typed(
        row, _DEAD
    )
    return DeadRecord(
        rowid=rowid,
        id=id_,
        digest=digest,
        label=label,
        channel=channel,
        status=status,
        reason=reason,
        attempts=attempts,
        created_at=from_us(created_at),
        died_at=from_us(at),
        body_bytes=size,
        body=body,
    )


def dead_list(engine: SqliteEngine, limit: int, after: int) -> list[DeadRecord]:
    rows = engine.connection.execute(sql.DEAD_LIST, (after, limit)).fetchall()
    return [_dead_record(row) for row in rows]


def dead_show(engine: SqliteEngine, id_: str) -> list[DeadRecord]:
    return [_dead_record(row) for row in engine.connection.execute(sql.DEAD_SHOW, (id_,)).fetchall()]


def _pages(engine: SqliteEngine, ids: Sequence[str] | None) -> Iterator[list[int]]:
    """The chosen rowids, page by page; each page must be gone before the next is asked for."""
    if ids is None:
        while rows := engine.connection.execute(sql.DEAD_PAGE, (ROWS_PER_STATEMENT,)).fetchall():
            yield [rowid for (rowid,) in rows]
        return
    for start in range(0, len(ids), ROWS_PER_STATEMENT):
        named = as_json([text(id_) for id_ in ids[start : start + ROWS_PER_STATEMENT]])
        yield [rowid for (rowid,) in engine.connection.execute(sql.DEAD_BY_ID, (named,)).fetchall()]


def dead_requeue(engine: SqliteEngine, ids: Sequence[str] | None) -> int:
    """Each letter arrives anew, so that the queue stays in the order of arrival."""
    moved = 0
    for page in _pages(engine, ids):
        now = as_us(engine.clock.now())
        (through,) = engine.connection.execute(metering.THROUGH).fetchone()
        for rowid in page:
            row = engine.connection.execute(sql.DEAD_READ, (rowid,)).fetchone()
            of, id_, digest, channel, created_at, label_id, label, body = typed(row, _REQUEUED)
            if of <= through:
                label_id = None  # it was counted under its old place
            engine.connection.execute(sql.DEAD_DELETE, (as_json([rowid]),))
            engine.connection.execute(sql.IDS_DELETE, (as_json([of]),))
            record = NewRecord(id=id_, digest=digest, channel=channel, label=label, body=body)
            arrived = engine.insert(id_, record, due_at=now, created_at=created_at, label_id=label_id)
            if engine.ledger.blobs:
                sqlite_blobs.move_refs(engine, of, arrived, now)
        moved += len(page)
    engine.ledger.dead -= moved
    return moved


def dead_drop(engine: SqliteEngine, ids: Sequence[str] | None) -> int:
    return sum(_forget_dead(engine, page) for page in _pages(engine, ids))


def _forget_dead(engine: SqliteEngine, rowids: Sequence[int]) -> int:
    letters = as_json(rowids)
    of = [of for (of,) in engine.connection.execute(sql.DEAD_IDS, (letters,)).fetchall()]
    engine.connection.execute(sql.DEAD_DELETE, (letters,))
    _forget_ids(engine, of)
    engine.ledger.dead -= len(of)
    return len(of)


def _forget_ids(engine: SqliteEngine, rowids: Sequence[int]) -> None:
    if engine.ledger.blobs:
        sqlite_blobs.unrefer(engine, rowids)
    engine.connection.execute(sql.IDS_SIGHTINGS_DELETE, (as_json(rowids),))
    engine.connection.execute(sql.IDS_DELETE, (as_json(rowids),))
    engine.connection.execute(metering.STEP_BACK)


def hold(engine: SqliteEngine, key: str, record: NewRecord) -> int:
    row = engine.connection.execute(sql.HELD_READ, (key_bytes(key),)).fetchone()
    count = 0 if row is None else int(row[0])
    assert not record.blobs, "what is held would lose its blobs"
    id_ = engine.stamped(record)
    is_held = row is not None and (row[1], row[2]) == (id_, record.digest)
    if is_held or record.digest in engine.known(id_):
        return count
    now = as_us(engine.clock.now())
    label, channel = text(record.label), text(record.channel)
    values = (key_bytes(key), now, id_, record.digest, label, channel, record.body)
    engine.connection.execute(sql.HELD_WRITE, values)
    engine.ledger.held += row is None
    return count + 1


def release_held(
    engine: SqliteEngine, key: str | None, before: datetime | None, limit: int
) -> list[Released]:
    now = engine.clock.now()
    if key is not None:
        rows = engine.connection.execute(sql.HELD_BY_KEY, (key_bytes(key),)).fetchall()
    else:
        limits = (as_us(before) if before is not None else 2**63 - 1, limit)
        rows = engine.connection.execute(sql.HELD_BEFORE, limits).fetchall()
    released: list[Released] = []
    for held_key, count, id_, digest, label, channel, body in typed_rows(rows, _HELD):
        record = NewRecord(id=id_, digest=digest, label=label, channel=channel, body=body)
        result = engine.put_one(record, as_us(now))
        engine.connection.execute(sql.HELD_DELETE, (held_key,))
        engine.ledger.held -= 1
        released.append(Released(key=key_text(held_key), count=count, result=result))
    return released


def prune(engine: SqliteEngine, limits: PruneLimits) -> int:
    """Dead letters first: they were just exported, and what stays would be exported again."""
    room = limits.rows_per_call_max
    excess = engine.ledger.dead - limits.dead_rows_max
    dead = _old(engine, sql.DEAD_OLDEST, (limits.dead_through, room), limits.dead_before, excess)
    if dead:
        _forget_dead(engine, dead)
    room -= len(dead)
    seen = _old(
        engine, sql.SEEN_OLDEST, (room,), limits.seen_before, engine.ledger.seen - limits.seen_rows_max
    )
    if seen:
        _forget_ids(engine, seen)
        engine.ledger.seen -= len(seen)
    room -= len(seen)
    excess = min(room, engine.ledger.last - limits.last_rows_max)
    last = engine.connection.execute(sql.LAST_OLDEST, (max(0, excess),)).fetchall()
    if last:
        engine.connection.execute(sql.LAST_DELETE_MANY, (as_json([rowid for (rowid,) in last]),))
        engine.ledger.last -= len(last)
    return len(seen) + len(dead) + len(last)


def _old(
    engine: SqliteEngine, oldest: str, parameters: tuple[int, ...], before: datetime, excess: int
) -> list[int]:
    """Rowids, oldest first, that are too old or among the ``excess`` first."""
    rows = typed_rows(engine.connection.execute(oldest, parameters).fetchall(), (int, int))
    limit = as_us(before)
    return [rowid for place, (rowid, at) in enumerate(rows) if place < excess or at < limit]
