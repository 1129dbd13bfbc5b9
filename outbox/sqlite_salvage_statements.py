"""The SQL of salvaging: reads that go around damage, and what makes a new file consistent afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from outbox.sqlite_blob_statements import PARKED

# Tables with rowids, and their other columns. ids first: the others belong to them.
BY_ROWID: Final[Mapping[str, tuple[str, ...]]] = {
    "ids": ("id", "digest", "channel", "created_at", "seen_at"),
    "outbox": ("due_at", "attempts", "status", "waits_because", "label", "body"),
    "dead": ("of", "at", "attempts", "status", "reason", "label", "body"),
    "last": ("key", "members"),
    "blobs": (
        "sha256",
        "bytes",
        "mime",
        "created_at",
        "due_at",
        "attempts",
        "status",
        "waits_because",
        "died_at",
    ),
    "held": ("key", "count", "first_at", "id", "digest", "label", "channel", "body"),
}
# Tables without: the key that they are stored by, and all columns.
BY_KEY: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "sightings": ("id", ("id", "digest", "channel", "first_at", "last_at", "times")),
    "blob_refs": ("record", ("record", "blob", "waits")),
    "meta": ("key", ("key", "value")),
}

# A file of an earlier release has no blobs.
HAS_TABLE: Final = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?)"
# A cell is checked before it is trusted, and a file that is shorter than it says is read as far as it goes.
LOOK_CLOSELY: Final = ("PRAGMA cell_size_check = ON", "PRAGMA writable_schema = ON")
RANGE: Final = "SELECT rowid, {columns} FROM {table} NOT INDEXED WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
WALK: Final = "SELECT {columns} FROM {table} ORDER BY {key} {order}"
EDGE: Final = "SELECT {which}(rowid) FROM {table} NOT INDEXED"
# Each reads another tree, so that damage in one of them leaves an answer.
HIGHEST: Final = (
    "SELECT max(rowid) FROM ids NOT INDEXED",
    "SELECT max(rowid) FROM outbox NOT INDEXED",
    "SELECT max(rowid) FROM outbox INDEXED BY outbox_due",
    "SELECT max(rowid) FROM ids INDEXED BY sqlite_autoindex_ids_1",
)
IDS_INDEX: Final = "SELECT rowid, id, digest FROM ids INDEXED BY sqlite_autoindex_ids_1 ORDER BY id {order}"
DEPTH: Final = "SELECT waiting FROM ledger"
INSERT: Final = "INSERT INTO {table} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING"

# Records whose id was not readable where it stands.
NAMELESS: Final = """
SELECT EXISTS (SELECT 1 FROM outbox WHERE rowid NOT IN (SELECT rowid FROM ids))
OR EXISTS (SELECT 1 FROM dead WHERE of NOT IN (SELECT rowid FROM ids))
"""
IS_NAMELESS: Final = """
SELECT (EXISTS (SELECT 1 FROM outbox WHERE rowid = ?1) OR EXISTS (SELECT 1 FROM dead WHERE of = ?1))
AND NOT EXISTS (SELECT 1 FROM ids WHERE rowid = ?1)
"""
# Whatever became of its time: what waits for blobs is not claimed before they went.
PARK: Final = (
    "UPDATE outbox SET due_at = {parked} WHERE rowid IN (SELECT record FROM blob_refs WHERE waits = 1)"
)
# What waits for a blob that no row knows any more must not wait for ever; its file is taken in and follows.
UNPARK: Final = """
UPDATE outbox SET due_at = (SELECT created_at FROM ids WHERE ids.rowid = outbox.rowid)
WHERE due_at = {parked} AND rowid NOT IN (SELECT record FROM blob_refs WHERE waits = 1)
"""
# A record without an id cannot be sent. An id whose record is gone must be forgotten, else its repetition
# would be taken for known. A record is in one state only. The depths are counted anew.
TIDY: Final = (
    "DELETE FROM outbox WHERE rowid NOT IN (SELECT rowid FROM ids)",
    "DELETE FROM dead WHERE of NOT IN (SELECT rowid FROM ids) OR of IN (SELECT rowid FROM outbox)",
    """UPDATE ids SET seen_at = NULL
       WHERE seen_at IS NOT NULL AND rowid IN (SELECT rowid FROM outbox UNION ALL SELECT of FROM dead)""",
    """DELETE FROM ids WHERE seen_at IS NULL
       AND rowid NOT IN (SELECT rowid FROM outbox UNION ALL SELECT of FROM dead)""",
    """DELETE FROM blob_refs WHERE blob NOT IN (SELECT rowid FROM blobs)
       OR record NOT IN (SELECT rowid FROM outbox UNION ALL SELECT of FROM dead)""",
    PARK.format(parked=PARKED),
    UNPARK.format(parked=PARKED),
    "UPDATE blobs SET due_at = created_at WHERE died_at IS NULL",
    """UPDATE ledger SET waiting = (SELECT count(*) FROM outbox),
       bytes = (SELECT coalesce(sum(length(body)), 0) FROM outbox)
       + (SELECT coalesce(sum(bytes), 0) FROM blobs WHERE died_at IS NULL),
       blobs = (SELECT count(*) FROM blobs), dead = (SELECT count(*) FROM dead),
       seen = (SELECT count(*) FROM ids WHERE seen_at IS NOT NULL),
       last = (SELECT count(*) FROM last), held = (SELECT count(*) FROM held)""",
    # What was not told to anybody yet is gone with the damaged file; counting begins with what comes now.
    "UPDATE meter SET through = coalesce((SELECT max(rowid) FROM ids), 0)",
)
COUNTS: Final = "SELECT waiting, dead, seen FROM ledger"

# What of a schema our statements name: tables with their columns, indices.
SHAPE: Final = """
SELECT m.type, m.name, coalesce(c.name, '') FROM sqlite_schema AS m
LEFT JOIN pragma_table_info(iif(m.type = 'table', m.name, NULL)) AS c
"""
# What is due behind what is parked would never be claimed, and no clock was ever there. By table.
DUE_BEYOND: Final = {
    "outbox": "SELECT EXISTS (SELECT 1 FROM outbox INDEXED BY outbox_due WHERE due_at > ?)",
    "blobs": "SELECT EXISTS (SELECT 1 FROM blobs INDEXED BY blobs_due WHERE due_at > ?)",
}
