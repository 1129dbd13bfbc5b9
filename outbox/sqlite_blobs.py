"""Blobs in the SQLite store: their rows, who refers to them, what follows when one is delivered or dead."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from outbox import sqlite_blob_statements as sql
from outbox.blobs import REASON_CHARS_MAX as BODY_REASON_CHARS_MAX
from outbox.blobs import DeadBlob
from outbox.record import NewBlob, Record
from outbox.sqlite_damage import OPTIONAL_INT, as_us, from_us, typed, typed_rows
from outbox.sqlite_values import as_json, died, retried, text
from outbox.store import Settlement
from outbox.verdict import Verdict

if TYPE_CHECKING:
    from outbox.sqlite_engine import SqliteEngine


_CLAIMED: Final = (int, str, str, int, int)
_DEAD: Final = (int, str, int, str, OPTIONAL_INT, str, int, int, int)


def tidy(engine: SqliteEngine, *, is_salvaged: bool) -> None:
    """At the start: remove files that no row knows.

    After a salvage they are taken in, to be uploaded: the row may be among what was lost.
    """
    orphans = engine.files.orphans(lambda sha256: _is_known(engine, sha256))
    if not is_salvaged:
        engine.files.drop(sha256 for sha256, _ in orphans)
    elif orphans:
        now = as_us(engine.clock.now())
        engine.connection.execute("BEGIN IMMEDIATE")
        for sha256, size in orphans:
            _insert(engine, sha256, size, "", now)
        engine.commit()


def unpin(engine: SqliteEngine, sha256s: Sequence[str]) -> None:
    """After a put: the files that it brought and that no row needs go."""
    free = engine.files.unpin(sha256s)
    engine.files.drop(sha256 for sha256 in free if not _is_known(engine, sha256))


def _is_known(engine: SqliteEngine, sha256: str) -> bool:
    return bool(engine.connection.execute(sql.IS_KNOWN, (sha256,)).fetchone()[0])


# what the operations on records need


def refer(
    engine: SqliteEngine, record: int, blobs: Sequence[NewBlob], now: int, *, waits: bool = True
) -> None:
    """The record waits for these, or keeps them; one that was settled before is asked for again."""
    for blob in blobs:
        row = engine.connection.execute(sql.KNOWN, (blob.sha256,)).fetchone()
        if row is None:
            rowid = _insert(engine, blob.sha256, blob.bytes, blob.mime, now)
        else:
            (rowid,) = row
            _again(engine, rowid, now)
        engine.connection.execute(sql.REFER, (record, rowid, waits))


def unrefer(engine: SqliteEngine, records: Sequence[int]) -> None:
    """These records are delivered or forgotten; so is what only they needed."""
    freed = engine.connection.execute(sql.REFS_OF, (as_json(records),)).fetchall()
    _forget_unneeded(engine, [blob for (blob,) in freed])


def move_refs(engine: SqliteEngine, of: int, to: int, now: int) -> None:
    """A dead letter is a waiting record again, under another rowid, and waits for its blobs once more."""
    moved = engine.connection.execute(sql.MOVE_REFS, {"of": of, "to": to}).fetchall()
    for (blob,) in moved:
        _again(engine, blob, now)
    if moved:
        engine.connection.execute(sql.PARK, (sql.PARKED, to))


def of_record(engine: SqliteEngine, record: int) -> tuple[NewBlob, ...]:
    """What it refers to, with the store's own files."""
    rows = engine.connection.execute(sql.BLOBS_OF, (record,)).fetchall()
    return tuple(
        NewBlob(sha256=sha256, bytes=size, mime=mime, path=engine.files.path_of(sha256))
        for sha256, size, mime in typed_rows(rows, (str, int, str))
    )


def _insert(engine: SqliteEngine, sha256: str, size: int, mime: str, now: int) -> int:
    values = (sha256, size, text(mime), now, now)
    rowid = engine.connection.execute(sql.INSERT, values).lastrowid
    assert rowid is not None
    engine.ledger.blobs += 1
    engine.ledger.bytes += size
    return rowid


def _again(engine: SqliteEngine, blob: int, now: int) -> None:
    """Due now, when it was settled: the other side may have forgotten it, or been repaired."""
    state = engine.connection.execute(sql.STATE, (blob,)).fetchone()
    size, is_settled, is_dead = typed(state, (int, int, int))
    if is_settled:
        engine.connection.execute(sql.AGAIN, {"now": now, "blob": blob})
        engine.ledger.bytes += size * is_dead


def _forget_unneeded(engine: SqliteEngine, blobs: Sequence[int]) -> None:
    for sha256, size in engine.connection.execute(sql.UNNEEDED, (as_json(blobs),)).fetchall():
        engine.ledger.blobs -= 1
        engine.ledger.bytes -= size
        engine.unneeded.append(sha256)


# the queue


def claim(engine: SqliteEngine, now: datetime, limit: int) -> list[Record]:
    lease = engine.next_lease()
    rows = engine.connection.execute(sql.CLAIM, {"now": as_us(now), "limit": limit}).fetchall()
    engine.connection.executemany(sql.LEASE, [(row[0], lease) for row in rows])
    return [
        Record(
            rowid=rowid,
            id=sha256,
            body=b"",
            label=mime,
            attempts=attempts,
            created_at=from_us(created_at),
            lease=lease,
        )
        for rowid, sha256, mime, attempts, created_at in typed_rows(rows, _CLAIMED)
    ]


def settle(engine: SqliteEngine, settlements: Sequence[Settlement]) -> int:
    held = [s for s in settlements if _unlease(engine, s.rowid, s.lease)]
    for s in held:
        if s.verdict is Verdict.DELIVERED:
            engine.connection.execute(sql.DELIVERED, (s.rowid,))
            _forget_unneeded(engine, [s.rowid])
        elif s.verdict is Verdict.DEAD:
            ((size,),) = engine.connection.execute(sql.DIED, died(s)).fetchall()
            engine.ledger.bytes -= size
        elif s.verdict is Verdict.RETRY:
            engine.connection.execute(sql.RETRY, retried(s))
    return len(held)


def release(engine: SqliteEngine, records: Sequence[Record]) -> int:
    return sum(_unlease(engine, record.rowid, record.lease) for record in records)


def next_due(engine: SqliteEngine) -> datetime | None:
    row = engine.connection.execute(sql.NEXT_DUE).fetchone()
    return None if row is None else from_us(row[0])


def _unlease(engine: SqliteEngine, rowid: int, lease: int) -> bool:
    return engine.connection.execute(sql.UNLEASE, (rowid, lease)).rowcount > 0


def free(engine: SqliteEngine, limit: int) -> int:
    """Free up to ``limit`` records of blobs that are settled; returns how many references that were."""
    rows = engine.connection.execute(sql.TO_FREE, {"limit": limit}).fetchall()
    now = as_us(engine.clock.now())
    for record, blob, sha256, is_dead, reason in typed_rows(rows, (int, int, str, int, str)):
        if is_dead:
            _mark_lost(engine, record, sha256, reason[:BODY_REASON_CHARS_MAX])
            engine.connection.execute(sql.REF_DELETE, (record, blob))
        else:
            engine.connection.execute(sql.WAITS_NO_MORE, (record, blob))
        (waits,) = engine.connection.execute(sql.STILL_WAITS, (record,)).fetchone()
        if not waits:
            engine.connection.execute(sql.UNPARK, {"now": now, "record": record, "parked": sql.PARKED})
    return len(rows)


def _mark_lost(engine: SqliteEngine, record: int, sha256: str, reason: str) -> None:
    (body,) = typed(engine.connection.execute(sql.BODY, (record,)).fetchone(), (bytes,))
    marked = engine.mark_lost(body, sha256, reason)
    engine.connection.execute(sql.REWRITE, (marked, record))
    engine.ledger.bytes += len(marked) - len(body)


# dead blobs


def dead_list(engine: SqliteEngine, limit: int, after: int) -> list[DeadBlob]:
    return [_dead_blob(row) for row in engine.connection.execute(sql.DEAD_LIST, (after, limit)).fetchall()]


def _dead_blob(row: tuple[Any, ...]) -> DeadBlob:
    rowid, sha256, size, mime, status, reason, attempts, created_at, died_at = typed(row, _DEAD)
    return DeadBlob(
        rowid=rowid,
        sha256=sha256,
        bytes=size,
        mime=mime,
        status=status,
        reason=reason,
        attempts=attempts,
        created_at=from_us(created_at),
        died_at=from_us(died_at),
    )


def dead_requeue(engine: SqliteEngine, sha256s: Sequence[str] | None) -> int:
    now = as_us(engine.clock.now())
    chosen = _dead(engine, sha256s)
    for blob in chosen:
        _again(engine, blob, now)
    return len(chosen)


def dead_drop(engine: SqliteEngine, sha256s: Sequence[str] | None) -> int:
    """One that records still wait for stays: they are freed first."""
    dropped = 0
    for blob in _dead(engine, sha256s):
        for (sha256,) in engine.connection.execute(sql.DELETE, (blob,)).fetchall():
            engine.connection.execute(sql.REFS_TO, (blob,))
            engine.unneeded.append(sha256)
            dropped += 1
    engine.ledger.blobs -= dropped
    return dropped


def _dead(engine: SqliteEngine, sha256s: Sequence[str] | None) -> list[int]:
    if sha256s is None:
        rows = engine.connection.execute(sql.DEAD_ALL).fetchall()
    else:
        named = as_json([text(sha256) for sha256 in sha256s])
        rows = engine.connection.execute(sql.DEAD_NAMED, (named,)).fetchall()
    return [blob for (blob,) in rows]
