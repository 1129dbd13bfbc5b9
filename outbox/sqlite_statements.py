"""Every SQL statement of the SQLite store, each with a name and a why.

Times are integer microseconds since 1970 in UTC. Lists travel as one JSON array parameter (``json_each``):
one statement a batch instead of one a row, because each step hands the interpreter lock to the event loop.
"""

from __future__ import annotations

from typing import Final

from outbox import sqlite_blob_statements as blob_sql
from outbox.sqlite_metering_statements import METER_SCHEMA

APPLICATION_ID: Final = 0x7A61706F
SCHEMA_VERSION: Final = 3
BUSY_TIMEOUT_MS: Final = 1_000
"""How long an operation waits for somebody who has the file locked (a person with a shell)."""

# FULL: an answer is given after COMMIT, so a commit must outlive a power cut (NORMAL may lose the last).
# temp_store MEMORY: leases live in a temporary table and die with the process.
# cache_size (12 MiB): ids fall on random pages; more would buy puts with memory that a small machine lacks.
# auto_vacuum must be set before the first table: pruned pages go back to the file system bit by bit.
PRAGMAS: Final = (
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -12288",
    "PRAGMA wal_autocheckpoint = 2000",
    "PRAGMA journal_size_limit = 16777216",
    "PRAGMA trusted_schema = OFF",
)

# Every id that is waiting, delivered or dead: one UNIQUE says that none of them comes in twice. rowid order
# is the order of arrival, so that a delivery touches neighbouring pages, never the random order of the ids.
_IDS: Final = """
CREATE TABLE ids (
  rowid INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  channel TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  seen_at INTEGER,
  UNIQUE (id, digest)
) STRICT
"""

# A waiting record, under the rowid of its id. status and waits_because are those of its last try: why it
# waits can be queried. body is last, so that reading the short columns never walks its overflow pages.
_OUTBOX: Final = """
CREATE TABLE outbox (
  rowid INTEGER PRIMARY KEY,
  due_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  status INTEGER,
  waits_because TEXT NOT NULL DEFAULT '',
  label TEXT NOT NULL,
  body BLOB NOT NULL
) STRICT
"""

# A dead letter; rowid order is the order of death.
_DEAD: Final = """
CREATE TABLE dead (
  rowid INTEGER PRIMARY KEY,
  of INTEGER NOT NULL UNIQUE,
  at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  status INTEGER,
  reason TEXT NOT NULL,
  label TEXT NOT NULL,
  body BLOB NOT NULL
) STRICT
"""

# Members of the last record of a guarded subject, as JSON {name: hex}. rowid order is the order of change.
_LAST: Final = (
    "CREATE TABLE last (rowid INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, members TEXT NOT NULL) STRICT"
)

# The newest record of a storm, and how many came.
_HELD: Final = """
CREATE TABLE held (
  key BLOB NOT NULL PRIMARY KEY,
  count INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  label TEXT NOT NULL,
  channel TEXT NOT NULL,
  body BLOB NOT NULL
) STRICT
"""

# Copies after the first, which stands in the record's own row; most records have none.
_SIGHTINGS: Final = """
CREATE TABLE sightings (
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  channel TEXT NOT NULL,
  first_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  times INTEGER NOT NULL,
  PRIMARY KEY (id, digest, channel)
) STRICT, WITHOUT ROWID
"""

_META: Final = "CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID"

# One row: the file's epoch, its counter, and the depths, so that no start and no status scans the history.
_LEDGER: Final = """
CREATE TABLE ledger (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  epoch TEXT NOT NULL,
  number INTEGER NOT NULL DEFAULT 0,
  waiting INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0,
  dead INTEGER NOT NULL DEFAULT 0,
  seen INTEGER NOT NULL DEFAULT 0,
  last INTEGER NOT NULL DEFAULT 0,
  held INTEGER NOT NULL DEFAULT 0,
  blobs INTEGER NOT NULL DEFAULT 0
) STRICT
"""

# What was delivered, in the order of delivery; for people and for pruning.
_SEEN: Final = "CREATE VIEW seen AS SELECT id, digest, seen_at AS at FROM ids WHERE seen_at IS NOT NULL"

SCHEMA: Final = (
    _IDS,
    "CREATE INDEX ids_seen ON ids (seen_at) WHERE seen_at IS NOT NULL",
    _SEEN,
    _OUTBOX,
    "CREATE INDEX outbox_due ON outbox (due_at)",
    _DEAD,
    _LAST,
    _HELD,
    "CREATE INDEX held_first ON held (first_at)",
    _SIGHTINGS,
    _META,
    _LEDGER,
    *blob_sql.BLOB_SCHEMA,
    *METER_SCHEMA,
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
# From a version to the next; a step is never changed again.
UPGRADES: Final = {**blob_sql.UPGRADES, 2: (*METER_SCHEMA, "PRAGMA user_version = 3")}

# Leases are of this connection alone: no claim writes to the disk, and none outlives the process.
LEASES_SCHEMA: Final = "CREATE TEMP TABLE leases (rowid INTEGER PRIMARY KEY, lease INTEGER NOT NULL) STRICT"

LEDGER_CREATE: Final = "INSERT INTO ledger (one, epoch) VALUES (1, ?)"
LEDGER_READ: Final = "SELECT epoch, number, waiting, bytes, dead, seen, last, held, blobs FROM ledger"
LEDGER_WRITE: Final = """
UPDATE ledger SET number = ?, waiting = ?, bytes = ?, dead = ?, seen = ?, last = ?, held = ?, blobs = ?
WHERE one = 1
"""

# A clock that stood in the future must not park records: no honest schedule lies that far ahead.
# What is parked waits for blobs.
DUE_HEAL: Final = "UPDATE outbox SET due_at = :now WHERE due_at > :ahead AND due_at < :parked"
# Nor hold the last record of a storm until that time has come: it is released by its age.
HELD_HEAL: Final = "UPDATE held SET first_at = :now WHERE first_at > :now"

# put
# Digests under which an id waits, was delivered or died: the index alone answers.
KNOWN: Final = "SELECT digest FROM ids WHERE id = ?"
INSERT_ID: Final = "INSERT INTO ids (id, digest, channel, created_at, label_id) VALUES (?, ?, ?, ?, ?)"
INSERT: Final = "INSERT INTO outbox (rowid, due_at, label, body) VALUES (?, ?, ?, ?)"
SIGHTING_CHANNELS: Final = "SELECT count(*) FROM sightings WHERE id = ? AND digest = ?"
SIGHTING_AGAIN: Final = """
UPDATE sightings SET last_at = :now, times = times + 1
WHERE id = :id AND digest = :digest AND channel = :channel
"""
SIGHTING_NEW: Final = (
    "INSERT INTO sightings (id, digest, channel, first_at, last_at, times) VALUES (?, ?, ?, ?, ?, 1)"
)
LAST_READ: Final = "SELECT rowid, members FROM last WHERE key = ?"
LAST_DELETE: Final = "DELETE FROM last WHERE rowid = ?"
LAST_INSERT: Final = "INSERT INTO last (key, members) VALUES (?, ?)"

# claim, settle, release
# The due index alone picks the rows (it holds the rowid too), so that a row somebody holds costs no read.
CLAIM: Final = """
SELECT o.rowid, i.id, i.digest, o.label, o.attempts, i.created_at, o.body
FROM outbox AS o INDEXED BY outbox_due CROSS JOIN ids AS i ON i.rowid = o.rowid
WHERE o.due_at <= :now AND o.rowid NOT IN (SELECT rowid FROM temp.leases)
ORDER BY o.due_at, o.rowid LIMIT :limit
"""
LEASE: Final = "INSERT INTO temp.leases (rowid, lease) SELECT value, :lease FROM json_each(:rowids)"
# Settle only what you hold: everything after this works on the rows that it returns.
HELD_BY: Final = """
SELECT l.rowid FROM json_each(:pairs) AS p
JOIN temp.leases AS l ON l.rowid = p.value ->> 0 AND l.lease = p.value ->> 1
"""
UNLEASE: Final = "DELETE FROM temp.leases WHERE rowid IN (SELECT value FROM json_each(:rowids))"
SIZE: Final = """
SELECT count(*), coalesce(sum(length(body)), 0) FROM outbox
WHERE rowid IN (SELECT value FROM json_each(:rowids))
"""
TO_SEEN: Final = "UPDATE ids SET seen_at = :now WHERE rowid IN (SELECT value FROM json_each(:rowids))"
TO_DEAD: Final = """
INSERT INTO dead (of, at, attempts, status, reason, label, body)
SELECT rowid, :now, attempts + 1, :status, :reason, label, body FROM outbox WHERE rowid = :rowid
"""
DELETE: Final = "DELETE FROM outbox WHERE rowid IN (SELECT value FROM json_each(:rowids))"
RETRY: Final = """
UPDATE outbox SET due_at = :due_at, attempts = attempts + :spent, status = :status, waits_because = :reason
WHERE rowid = :rowid
"""
LEASED_COUNT: Final = "SELECT count(*) FROM temp.leases"
NEXT_DUE: Final = """
SELECT due_at FROM outbox INDEXED BY outbox_due
WHERE due_at < ? AND rowid NOT IN (SELECT rowid FROM temp.leases) ORDER BY due_at LIMIT 1
"""
# rowid order is the order of arrival.
OLDEST: Final = "SELECT created_at FROM ids WHERE rowid = (SELECT min(rowid) FROM outbox)"
SIGHTINGS: Final = """
SELECT digest, channel, created_at, created_at, 1 FROM ids WHERE id = :id
UNION ALL SELECT digest, channel, first_at, last_at, times FROM sightings WHERE id = :id
"""

# dead letters
_DEAD_ROWS: Final = """
SELECT d.rowid, i.id, i.digest, d.label, i.channel, d.status, d.reason, d.attempts, i.created_at, d.at,
length(d.body), {body} FROM dead AS d CROSS JOIN ids AS i ON i.rowid = d.of WHERE {which} ORDER BY d.rowid
"""
DEAD_LIST: Final = _DEAD_ROWS.format(body="NULL", which="d.rowid > ?") + "LIMIT ?"
DEAD_SHOW: Final = _DEAD_ROWS.format(body="d.body", which="d.of IN (SELECT rowid FROM ids WHERE id = ?)")
# An operator may name ids or mean all; both work through the table a bounded number of rows at a time.
DEAD_PAGE: Final = "SELECT rowid FROM dead ORDER BY rowid LIMIT ?"
DEAD_BY_ID: Final = """
SELECT rowid FROM dead WHERE of IN (SELECT rowid FROM ids WHERE id IN (SELECT value FROM json_each(?)))
ORDER BY rowid
"""
DEAD_READ: Final = """
SELECT i.rowid, i.id, i.digest, i.channel, i.created_at, i.label_id, d.label, d.body
FROM dead AS d JOIN ids AS i ON i.rowid = d.of WHERE d.rowid = ?
"""
DEAD_IDS: Final = "SELECT of FROM dead WHERE rowid IN (SELECT value FROM json_each(?))"
DEAD_DELETE: Final = "DELETE FROM dead WHERE rowid IN (SELECT value FROM json_each(?))"

# carrying away: rowid order, so that a page goes on where the last one ended
KEPT_WAITING: Final = """
SELECT o.rowid, o.rowid, i.id, i.digest, o.label, i.channel, o.status, o.waits_because, o.attempts,
i.created_at, o.due_at, o.body FROM outbox AS o CROSS JOIN ids AS i ON i.rowid = o.rowid
WHERE o.rowid > ? ORDER BY o.rowid LIMIT ?
"""
KEPT_DEAD: Final = """
SELECT d.rowid, d.of, i.id, i.digest, d.label, i.channel, d.status, d.reason, d.attempts, i.created_at, d.at,
d.body FROM dead AS d CROSS JOIN ids AS i ON i.rowid = d.of WHERE d.rowid > ? ORDER BY d.rowid LIMIT ?
"""
INSERT_DEAD: Final = (
    "INSERT INTO dead (of, at, attempts, status, reason, label, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
)

# held
HELD_READ: Final = "SELECT count, id, digest FROM held WHERE key = ?"
HELD_WRITE: Final = """
INSERT INTO held (key, count, first_at, id, digest, label, channel, body) VALUES (?, 1, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET count = count + 1, id = excluded.id, digest = excluded.digest,
label = excluded.label, channel = excluded.channel, body = excluded.body
"""
HELD_BY_KEY: Final = "SELECT key, count, id, digest, label, channel, body FROM held WHERE key = ?"
HELD_BEFORE: Final = """
SELECT key, count, id, digest, label, channel, body FROM held WHERE first_at < ? ORDER BY first_at LIMIT ?
"""
HELD_DELETE: Final = "DELETE FROM held WHERE key = ?"

# meta
META_READ: Final = "SELECT value FROM meta WHERE key = ?"
META_WRITE: Final = """
INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""

# prune: each list begins with the oldest, so a call reads only what it forgets.
SEEN_OLDEST: Final = """
SELECT rowid, seen_at FROM ids INDEXED BY ids_seen WHERE seen_at IS NOT NULL ORDER BY seen_at LIMIT ?
"""
IDS_SIGHTINGS_DELETE: Final = """
DELETE FROM sightings WHERE (id, digest) IN
(SELECT id, digest FROM ids WHERE rowid IN (SELECT value FROM json_each(?)))
"""
IDS_DELETE: Final = "DELETE FROM ids WHERE rowid IN (SELECT value FROM json_each(?))"
DEAD_OLDEST: Final = "SELECT rowid, at FROM dead WHERE rowid <= ? ORDER BY rowid LIMIT ?"
LAST_OLDEST: Final = "SELECT rowid FROM last ORDER BY rowid LIMIT ?"
LAST_DELETE_MANY: Final = "DELETE FROM last WHERE rowid IN (SELECT value FROM json_each(?))"

# Only as a script: it gives a row a page, and Python's execute ends after the first where a statement has no
# columns. Bounded, so that a put never waits long. On a full disk nothing is more urgent.
FREE_PAGES: Final = "PRAGMA incremental_vacuum(1024)"
FREE_MANY_PAGES: Final = "PRAGMA incremental_vacuum(4096)"

# A reader in the way must not hold up the puts: the checkpoint waits for nobody and comes again.
WAIT_NEVER: Final = "PRAGMA busy_timeout = 0"
WAIT_AGAIN: Final = f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}"
CHECKPOINT: Final = "PRAGMA wal_checkpoint(TRUNCATE)"
