-- The outbox's first schema, as release 0.1 made it; never edit.
CREATE TABLE ids (
  rowid INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  channel TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  seen_at INTEGER,
  UNIQUE (id, digest)
) STRICT;
CREATE INDEX ids_seen ON ids (seen_at) WHERE seen_at IS NOT NULL;
CREATE VIEW seen AS SELECT id, digest, seen_at AS at FROM ids WHERE seen_at IS NOT NULL;
CREATE TABLE outbox (
  rowid INTEGER PRIMARY KEY,
  due_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  status INTEGER,
  waits_because TEXT NOT NULL DEFAULT '',
  label TEXT NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE INDEX outbox_due ON outbox (due_at);
CREATE TABLE dead (
  rowid INTEGER PRIMARY KEY,
  of INTEGER NOT NULL UNIQUE,
  at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  status INTEGER,
  reason TEXT NOT NULL,
  label TEXT NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE TABLE last (rowid INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, members TEXT NOT NULL) STRICT;
CREATE TABLE held (
  key BLOB NOT NULL PRIMARY KEY,
  count INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  label TEXT NOT NULL,
  channel TEXT NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE INDEX held_first ON held (first_at);
CREATE TABLE sightings (
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  channel TEXT NOT NULL,
  first_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  times INTEGER NOT NULL,
  PRIMARY KEY (id, digest, channel)
) STRICT, WITHOUT ROWID;
CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
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
) STRICT;
PRAGMA application_id = 2053206127;
PRAGMA user_version = 1;
