"""Records under a lease, and how they end: the SQLite store's way out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from outbox import sqlite_blobs
from outbox import sqlite_statements as sql
from outbox.kept import within_bytes
from outbox.record import Record
from outbox.sqlite_blob_statements import PARKED
from outbox.sqlite_damage import as_us, from_us, typed_rows
from outbox.sqlite_values import as_json, died, retried
from outbox.store import Settlement
from outbox.verdict import Verdict

if TYPE_CHECKING:
    from outbox.sqlite_engine import SqliteEngine

_CLAIMED: Final = (int, str, bytes, str, int, int, bytes)


def claim(engine: SqliteEngine, now: datetime, limit: int, bytes_max: int) -> list[Record]:
    lease = engine.next_lease()
    rows = engine.connection.execute(sql.CLAIM, {"now": as_us(now), "limit": limit})
    records = [
        Record(
            rowid=rowid,
            id=id_,
            digest=digest,
            body=body,
            label=label,
            attempts=attempts,
            created_at=from_us(created_at),
            lease=lease,
        )
        for rowid, id_, digest, label, attempts, created_at, body in within_bytes(
            typed_rows(rows, _CLAIMED), bytes_max, itemgetter(-1)
        )
    ]
    rows.close()
    if records:
        rowids = as_json([record.rowid for record in records])
        engine.connection.execute(sql.LEASE, {"lease": lease, "rowids": rowids})
    return records


def settle(engine: SqliteEngine, settlements: Sequence[Settlement]) -> int:
    mine = _unlease(engine, [(s.rowid, s.lease) for s in settlements])
    held = {s.rowid: s for s in settlements if s.rowid in mine}
    delivered = [s for s in held.values() if s.verdict is Verdict.DELIVERED]
    if delivered:
        rowids = [s.rowid for s in delivered]
        _delete(engine, rowids)  # first, so that a full file finds its room for the rest here
        names = {"now": as_us(delivered[0].now), "rowids": as_json(rowids)}
        engine.connection.execute(sql.TO_SEEN, names)
        engine.ledger.seen += len(delivered)
        if engine.ledger.blobs:
            sqlite_blobs.unrefer(engine, rowids)
    for s in held.values():
        if s.verdict is Verdict.DEAD:
            engine.connection.execute(sql.TO_DEAD, died(s))
            _delete(engine, [s.rowid])
            engine.ledger.dead += 1
        elif s.verdict is Verdict.RETRY:
            engine.connection.execute(sql.RETRY, retried(s))
    return len(held)


def release(engine: SqliteEngine, records: Sequence[Record]) -> int:
    return len(_unlease(engine, [(record.rowid, record.lease) for record in records]))


def _unlease(engine: SqliteEngine, pairs: Sequence[tuple[int, int]]) -> set[int]:
    rows = engine.connection.execute(sql.HELD_BY, {"pairs": as_json(pairs)}).fetchall()
    mine = [rowid for (rowid,) in rows]
    engine.connection.execute(sql.UNLEASE, {"rowids": as_json(mine)})
    return set(mine)


def _delete(engine: SqliteEngine, rowids: Sequence[int]) -> None:
    listed = {"rowids": as_json(rowids)}
    count, size = engine.connection.execute(sql.SIZE, listed).fetchone()
    engine.connection.execute(sql.DELETE, listed)
    engine.ledger.waiting -= count
    engine.ledger.bytes -= size


def next_due(engine: SqliteEngine) -> datetime | None:
    row = engine.connection.execute(sql.NEXT_DUE, (PARKED,)).fetchone()
    return None if row is None else from_us(row[0])
