"""The SQL of blobs in the SQLite store, each statement with a name and a why."""

from __future__ import annotations

from typing import Final

PARKED: Final = 2**62
"""The ``due_at`` of a record that waits for blobs: no claim ever comes to it; no clock is that far ahead."""

# A blob whose file is in the folder. due_at is NULL once it is delivered or dead; waits_because is also why
# it died.
_BLOBS: Final = """
CREATE TABLE blobs (
  rowid INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL UNIQUE,
  bytes INTEGER NOT NULL,
  mime TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  due_at INTEGER,
  attempts INTEGER NOT NULL DEFAULT 0,
  status INTEGER,
  waits_because TEXT NOT NULL DEFAULT '',
  died_at INTEGER
) STRICT
"""

# Which waiting or dead record (by the rowid of its id) refers to which blob, and whether it waits for it.
_BLOB_REFS: Final = """
CREATE TABLE blob_refs (
  record INTEGER NOT NULL,
  blob INTEGER NOT NULL,
  waits INTEGER NOT NULL,
  PRIMARY KEY (record, blob)
) STRICT, WITHOUT ROWID
"""

BLOB_SCHEMA: Final = (
    _BLOBS,
    "CREATE INDEX blobs_due ON blobs (due_at) WHERE due_at IS NOT NULL",
    "CREATE INDEX blobs_dead ON blobs (rowid) WHERE died_at IS NOT NULL",
    _BLOB_REFS,
    "CREATE INDEX blob_refs_blob ON blob_refs (blob, waits)",
)

# What a file of an earlier release lacks, by its version; each ends at the next one.
UPGRADES: Final = {
    1: (
        *BLOB_SCHEMA,
        "ALTER TABLE ledger ADD COLUMN blobs INTEGER NOT NULL DEFAULT 0",
        "PRAGMA user_version = 2",
    ),
}

# Leases of blobs are of this connection alone, as those of records are.
BLOB_LEASES_SCHEMA: Final = (
    "CREATE TEMP TABLE blob_leases (rowid INTEGER PRIMARY KEY, lease INTEGER NOT NULL) STRICT"
)

# put
KNOWN: Final = "SELECT rowid FROM blobs WHERE sha256 = ?"
STATE: Final = "SELECT bytes, due_at IS NULL, died_at IS NOT NULL FROM blobs WHERE rowid = ?"
INSERT: Final = "INSERT INTO blobs (sha256, bytes, mime, created_at, due_at) VALUES (?, ?, ?, ?, ?)"
# Delivered or dead, and needed again: the other side is asked anew, it may have forgotten or been repaired.
AGAIN: Final = """
UPDATE blobs SET due_at = :now, attempts = 0, status = NULL, waits_because = '', died_at = NULL
WHERE rowid = :blob
"""
REFER: Final = """
INSERT INTO blob_refs (record, blob, waits) VALUES (?, ?, ?) ON CONFLICT (record, blob) DO NOTHING
"""

# claim, settle, release
CLAIM: Final = """
SELECT rowid, sha256, mime, attempts, created_at FROM blobs INDEXED BY blobs_due
WHERE due_at <= :now AND rowid NOT IN (SELECT rowid FROM temp.blob_leases)
ORDER BY due_at, rowid LIMIT :limit
"""
LEASE: Final = "INSERT INTO temp.blob_leases (rowid, lease) VALUES (?, ?)"
UNLEASE: Final = "DELETE FROM temp.blob_leases WHERE rowid = ? AND lease = ?"
NEXT_DUE: Final = """
SELECT due_at FROM blobs INDEXED BY blobs_due
WHERE due_at IS NOT NULL AND rowid NOT IN (SELECT rowid FROM temp.blob_leases) ORDER BY due_at LIMIT 1
"""
DELIVERED: Final = "UPDATE blobs SET due_at = NULL, status = NULL, waits_because = '' WHERE rowid = ?"
DIED: Final = """
UPDATE blobs SET due_at = NULL, attempts = attempts + 1, status = :status, waits_because = :reason,
died_at = :now WHERE rowid = :rowid RETURNING bytes
"""
RETRY: Final = """
UPDATE blobs SET due_at = :due_at, attempts = attempts + :spent, status = :status, waits_because = :reason
WHERE rowid = :rowid
"""
# A clock that stood in the future must not park blobs.
DUE_HEAL: Final = "UPDATE blobs SET due_at = :now WHERE due_at > :ahead AND due_at < :parked"

# freeing: only settled blobs that somebody still waits for, hence none but right after a settle or a crash
TO_FREE: Final = """
SELECT r.record, b.rowid, b.sha256, b.died_at IS NOT NULL, b.waits_because
FROM blobs AS b CROSS JOIN blob_refs AS r ON r.blob = b.rowid AND r.waits = 1
WHERE b.due_at IS NULL LIMIT :limit
"""
WAITS_NO_MORE: Final = "UPDATE blob_refs SET waits = 0 WHERE record = ? AND blob = ?"
REF_DELETE: Final = "DELETE FROM blob_refs WHERE record = ? AND blob = ?"
STILL_WAITS: Final = "SELECT EXISTS (SELECT 1 FROM blob_refs WHERE record = ? AND waits = 1)"
PARK: Final = "UPDATE outbox SET due_at = ? WHERE rowid = ?"
UNPARK: Final = "UPDATE outbox SET due_at = :now WHERE rowid = :record AND due_at = :parked"
BODY: Final = "SELECT body FROM outbox WHERE rowid = ?"
REWRITE: Final = "UPDATE outbox SET body = ? WHERE rowid = ?"

# forgetting
REFS_OF: Final = """
DELETE FROM blob_refs WHERE record IN (SELECT value FROM json_each(?)) RETURNING blob
"""
# What is delivered and has no reference is not needed any more.
UNNEEDED: Final = """
DELETE FROM blobs WHERE rowid IN (SELECT value FROM json_each(?)) AND due_at IS NULL AND died_at IS NULL
AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob = blobs.rowid) RETURNING sha256, bytes
"""
MOVE_REFS: Final = "UPDATE blob_refs SET record = :to, waits = 1 WHERE record = :of RETURNING blob"

# dead blobs, and looking
DEAD_LIST: Final = """
SELECT rowid, sha256, bytes, mime, status, waits_because, attempts, created_at, died_at
FROM blobs INDEXED BY blobs_dead WHERE died_at IS NOT NULL AND rowid > ? ORDER BY rowid LIMIT ?
"""
DEAD_NAMED: Final = """
SELECT rowid FROM blobs WHERE died_at IS NOT NULL AND sha256 IN (SELECT value FROM json_each(?))
"""
DEAD_ALL: Final = "SELECT rowid FROM blobs INDEXED BY blobs_dead WHERE died_at IS NOT NULL"
REFS_TO: Final = "DELETE FROM blob_refs WHERE blob = ?"
# Not while records wait for it: nothing would ever free them.
DELETE: Final = """
DELETE FROM blobs WHERE rowid = ?
AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob = blobs.rowid AND waits = 1) RETURNING sha256
"""
COUNTS: Final = """
SELECT (SELECT count(*) FROM blobs WHERE due_at IS NOT NULL),
(SELECT count(*) FROM blobs WHERE died_at IS NOT NULL)
"""
IS_KNOWN: Final = "SELECT EXISTS (SELECT 1 FROM blobs WHERE sha256 = ?)"
BLOBS_OF: Final = """
SELECT b.sha256, b.bytes, b.mime FROM blob_refs AS r CROSS JOIN blobs AS b ON b.rowid = r.blob
WHERE r.record = ? ORDER BY r.blob
"""
