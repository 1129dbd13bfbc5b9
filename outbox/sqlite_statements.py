"""Every SQL statement of the SQLite store, each with a name and a why.

Times are integer microseconds since 1970 in UTC. Lists travel as one JSON array parameter (``json_each``):
one statement a batch instead of one a row, because each step hands the interpreter lock to the event loop.
"""

from __future__ import annotations

from typing import Final

APPLICATION_ID: Final = 0x7A61706F
SCHEMA_VERSION: Final = 1
BUSY_TIMEOUT_MS: Final = 1_000
"""How long an operation waits for somebody who has the file locked (a person with a shell)."""

# FULL: an answer is given after COMMIT, so a commit must outlive a power cut (NORMAL may lose the last).
# temp_store MEMORY: leases live in a temporary table and die with the process.
# auto_vacuum must be set before the first table: pruned pages go back to the file system bit by bit.
PRAGMAS: Final = (
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8192",
    "PRAGMA wal_autocheckpoint = 2000",
    "PRAGMA journal_size_limit = 16777216",
    "PRAGMA trusted_schema = OFF",
)

# A waiting record. status and waits_because are those of its last try: why it waits can be queried.
# body is last, so that reading the short columns never walks its overflow pages.
_OUTBOX: Final = """
CREATE TABLE outbox (
  rowid INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  due_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  status INTEGER,
  waits_because TEXT NOT NULL DEFAULT '',
  label TEXT NOT NULL,
  channel TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (id, digest)
) STRICT
"""

# An id that was delivered: a re-emission dies here. rowid order is the order of delivery.
_SEEN: Final = """
CREATE TABLE seen (
  rowid INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  at INTEGER NOT NULL,
  channel TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  UNIQUE (id, digest)
) STRICT
"""

_DEAD: Final = """
CREATE TABLE dead (
  rowid INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  status INTEGER,
  reason TEXT NOT NULL,
  label TEXT NOT NULL,
  channel TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (id, digest)
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
  held INTEGER NOT NULL DEFAULT 0
) STRICT
"""

SCHEMA: Final = (
    _OUTBOX,
    "CREATE INDEX outbox_due ON outbox (due_at)",
    _SEEN,
    _DEAD,
    _LAST,
    _HELD,
    "CREATE INDEX held_first ON held (first_at)",
    _SIGHTINGS,
    _META,
    _LEDGER,
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

# Leases are of this connection alone: no claim writes to the disk, and none outlives the process.
LEASES_SCHEMA: Final = "CREATE TEMP TABLE leases (rowid INTEGER PRIMARY KEY, lease INTEGER NOT NULL) STRICT"

LEDGER_CREATE: Final = "INSERT INTO ledger (one, epoch) VALUES (1, ?)"
LEDGER_READ: Final = "SELECT epoch, number, waiting, bytes, dead, seen, last, held FROM ledger"
LEDGER_WRITE: Final = """
UPDATE ledger SET number = ?, waiting = ?, bytes = ?, dead = ?, seen = ?, last = ?, held = ? WHERE one = 1
"""

# A clock that stood in the future must not park records: no honest schedule lies that far ahead.
DUE_HEAL: Final = "UPDATE outbox SET due_at = :now WHERE due_at > :ahead"

# put
# One round trip tells whether an id is known, and with which digests.
KNOWN: Final = """
SELECT digest FROM outbox WHERE id = :id
UNION ALL SELECT digest FROM seen WHERE id = :id
UNION ALL SELECT digest FROM dead WHERE id = :id
"""
INSERT: Final = """
INSERT INTO outbox (id, digest, due_at, label, channel, created_at, body) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
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
SELECT rowid, id, digest, body, label, attempts, created_at FROM outbox INDEXED BY outbox_due
WHERE due_at <= :now AND rowid NOT IN (SELECT rowid FROM temp.leases)
ORDER BY due_at, rowid LIMIT :limit
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
TO_SEEN: Final = """
INSERT INTO seen (id, digest, at, channel, created_at)
SELECT id, digest, :now, channel, created_at FROM outbox
WHERE rowid IN (SELECT value FROM json_each(:rowids))
"""
TO_DEAD: Final = """
INSERT INTO dead (id, digest, at, attempts, status, reason, label, channel, created_at, body)
SELECT id, digest, :now, attempts + 1, :status, :reason, label, channel, created_at, body
FROM outbox WHERE rowid = :rowid
"""
DELETE: Final = "DELETE FROM outbox WHERE rowid IN (SELECT value FROM json_each(:rowids))"
RETRY: Final = """
UPDATE outbox SET due_at = :due_at, attempts = attempts + :spent, status = :status, waits_because = :reason
WHERE rowid = :rowid
"""
LEASED_COUNT: Final = "SELECT count(*) FROM temp.leases"
NEXT_DUE: Final = """
SELECT due_at FROM outbox INDEXED BY outbox_due WHERE rowid NOT IN (SELECT rowid FROM temp.leases)
ORDER BY due_at LIMIT 1
"""
# rowid order is the order of arrival.
OLDEST: Final = "SELECT created_at FROM outbox ORDER BY rowid LIMIT 1"
SIGHTINGS: Final = """
SELECT digest, channel, created_at, created_at, 1 FROM outbox WHERE id = :id
UNION ALL SELECT digest, channel, created_at, created_at, 1 FROM seen WHERE id = :id
UNION ALL SELECT digest, channel, created_at, created_at, 1 FROM dead WHERE id = :id
UNION ALL SELECT digest, channel, first_at, last_at, times FROM sightings WHERE id = :id
"""

# dead letters
_DEAD_COLUMNS: Final = (
    "rowid, id, digest, label, channel, status, reason, attempts, created_at, at, length(body)"
)
DEAD_LIST: Final = f"SELECT {_DEAD_COLUMNS}, NULL FROM dead WHERE rowid > ? ORDER BY rowid LIMIT ?"  # noqa: S608
DEAD_SHOW: Final = f"SELECT {_DEAD_COLUMNS}, body FROM dead WHERE id = ? ORDER BY rowid"  # noqa: S608
# An operator may name ids or mean all; both work through the table a bounded number of rows at a time.
DEAD_PAGE: Final = "SELECT rowid FROM dead ORDER BY rowid LIMIT ?"
DEAD_BY_ID: Final = "SELECT rowid FROM dead WHERE id IN (SELECT value FROM json_each(?))"
DEAD_TO_OUTBOX: Final = """
INSERT INTO outbox (id, digest, due_at, waits_because, label, channel, created_at, body)
SELECT id, digest, :now, 'requeued', label, channel, created_at, body
FROM dead WHERE rowid IN (SELECT value FROM json_each(:rowids)) ORDER BY rowid
"""
DEAD_SIZE: Final = """
SELECT coalesce(sum(length(body)), 0) FROM dead WHERE rowid IN (SELECT value FROM json_each(?))
"""
DEAD_DELETE: Final = "DELETE FROM dead WHERE rowid IN (SELECT value FROM json_each(?))"
DEAD_SIGHTINGS_DELETE: Final = """
DELETE FROM sightings WHERE (id, digest) IN
(SELECT id, digest FROM dead WHERE rowid IN (SELECT value FROM json_each(?)))
"""

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

# prune: the oldest rows are the first rowids, so a call reads only what it forgets.
SEEN_OLDEST: Final = "SELECT rowid, at FROM seen ORDER BY rowid LIMIT ?"
SEEN_DELETE: Final = "DELETE FROM seen WHERE rowid IN (SELECT value FROM json_each(?))"
SEEN_SIGHTINGS_DELETE: Final = """
DELETE FROM sightings WHERE (id, digest) IN
(SELECT id, digest FROM seen WHERE rowid IN (SELECT value FROM json_each(?)))
"""
DEAD_OLDEST: Final = "SELECT rowid, at FROM dead WHERE rowid <= ? ORDER BY rowid LIMIT ?"
LAST_OLDEST: Final = "SELECT rowid FROM last ORDER BY rowid LIMIT ?"
LAST_DELETE_MANY: Final = "DELETE FROM last WHERE rowid IN (SELECT value FROM json_each(?))"
FREE_PAGES: Final = "PRAGMA incremental_vacuum(256)"

# A reader in the way must not hold up the puts: the checkpoint waits for nobody and comes again.
WAIT_NEVER: Final = "PRAGMA busy_timeout = 0"
WAIT_AGAIN: Final = f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}"
CHECKPOINT: Final = "PRAGMA wal_checkpoint(TRUNCATE)"
