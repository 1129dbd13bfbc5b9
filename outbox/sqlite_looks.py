"""What the SQLite store tells of itself and of a record, without changing anything."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from outbox import sqlite_blob_statements as blob_sql
from outbox import sqlite_statements as sql
from outbox.sqlite_damage import from_us, typed_rows
from outbox.sqlite_engine import SqliteEngine
from outbox.sqlite_file import FILE_NAME
from outbox.sqlite_version import described
from outbox.store import Sighting, StoreStats


def stats(engine: SqliteEngine) -> StoreStats:
    """The depths are kept in the ledger: nothing here grows with the history."""
    (claimed,) = engine.connection.execute(sql.LEASED_COUNT).fetchone()
    oldest = engine.connection.execute(sql.OLDEST).fetchone()
    ledger, room = engine.ledger, engine.room
    room.look()
    blobs = (0, 0) if not ledger.blobs else engine.connection.execute(blob_sql.COUNTS).fetchone()
    return StoreStats(
        waiting=ledger.waiting,
        claimed=claimed,
        dead=ledger.dead,
        seen=ledger.seen,
        held=ledger.held,
        oldest_at=None if oldest is None else from_us(oldest[0]),
        bytes=ledger.bytes,
        file_bytes=_size(engine.folder / FILE_NAME) + room.wal_bytes,
        wal_bytes=room.wal_bytes,
        has_reserve=room.has_reserve,
        fsync_s=engine.fsync_s,
        engine=described(sqlite3.sqlite_version_info),
        blobs_waiting=blobs[0],
        blobs_dead=blobs[1],
        salvaged="" if engine.salvaged is None else str(engine.salvaged),
    )


def sightings(engine: SqliteEngine, id_: str) -> list[Sighting]:
    """The record's own channel and its copies, by first time."""
    merged: dict[tuple[bytes, str], Sighting] = {}
    rows = engine.connection.execute(sql.SIGHTINGS, {"id": id_}).fetchall()
    for digest, channel, first, last, times in typed_rows(rows, (bytes, str, int, int, int)):
        if not channel:
            continue
        known = merged.get((digest, channel))
        merged[digest, channel] = Sighting(
            digest=digest,
            channel=channel,
            first_at=known.first_at if known else from_us(first),
            last_at=from_us(last),
            times=times + (known.times if known else 0),
        )
    return sorted(merged.values(), key=lambda sighting: sighting.first_at)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
