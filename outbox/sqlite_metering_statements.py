"""The SQL of the meter: which channels brought the records, counted by label and hour."""

from __future__ import annotations

from typing import Final

# A label once, so that an id needs an integer to tell what it is counted by.
_LABELS: Final = "CREATE TABLE labels (rowid INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE) STRICT"

# hour in microseconds as all times; channels and delays as JSON arrays; told is the count that was told.
_CELLS: Final = """
CREATE TABLE cells (
  label_id INTEGER NOT NULL,
  hour INTEGER NOT NULL,
  channels TEXT NOT NULL,
  count INTEGER NOT NULL,
  told INTEGER NOT NULL DEFAULT 0,
  delay_ms_max INTEGER NOT NULL,
  delays TEXT NOT NULL,
  PRIMARY KEY (label_id, hour, channels)
) STRICT, WITHOUT ROWID
"""

# One row: the last id that was looked at, when that came first, and how many cells there are.
_METER: Final = """
CREATE TABLE meter (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  through INTEGER NOT NULL,
  swept_at INTEGER NOT NULL DEFAULT 0,
  cells INTEGER NOT NULL DEFAULT 0
) STRICT
"""

# From a file without a meter: what it holds already is not counted, since its labels are gone. A new column
# stands in the table's definition only, so no row is rewritten.
METER_SCHEMA: Final = (
    "ALTER TABLE ids ADD COLUMN label_id INTEGER",
    _LABELS,
    _CELLS,
    "CREATE INDEX cells_untold ON cells (hour) WHERE told < count",
    "CREATE INDEX cells_hour ON cells (hour)",
    _METER,
    "INSERT INTO meter (one, through) SELECT 1, coalesce(max(rowid), 0) FROM ids",
)

METER_READ: Final = "SELECT through, swept_at, cells FROM meter"
METER_WRITE: Final = "UPDATE meter SET through = ?, swept_at = ?, cells = ? WHERE one = 1"
THROUGH: Final = "SELECT through FROM meter"
# A rowid that is given again must be above what was looked at: the newest ids may just have been deleted.
STEP_BACK: Final = """
UPDATE meter SET through = coalesce((SELECT max(rowid) FROM ids), 0)
WHERE through > coalesce((SELECT max(rowid) FROM ids), 0)
"""

LABEL_READ: Final = "SELECT rowid FROM labels WHERE label = ?"
LABEL_INSERT: Final = """
INSERT INTO labels (label) SELECT :label WHERE (SELECT coalesce(max(rowid), 0) FROM labels) < :labels_max
RETURNING rowid
"""

# In the order of arrival, from where the last sweep ended: each row is read once in its life.
SWEEP: Final = "SELECT rowid, created_at FROM ids WHERE rowid > ? ORDER BY rowid LIMIT ?"
# All that brought them: their own rows, other bodies of the same id, and copies.
CHANNELS: Final = """
SELECT i.rowid, l.label, i.created_at, o.channel, o.created_at
FROM ids AS i CROSS JOIN labels AS l ON l.rowid = i.label_id CROSS JOIN ids AS o ON o.id = i.id
WHERE i.rowid BETWEEN :first AND :last
UNION ALL
SELECT i.rowid, l.label, i.created_at, s.channel, s.first_at
FROM ids AS i CROSS JOIN labels AS l ON l.rowid = i.label_id CROSS JOIN sightings AS s ON s.id = i.id
WHERE i.rowid BETWEEN :first AND :last
"""

CELL_READ: Final = """
SELECT count, delay_ms_max, delays FROM cells
WHERE label_id = (SELECT rowid FROM labels WHERE label = ?) AND hour = ? AND channels = ?
"""
CELL_WRITE: Final = """
INSERT INTO cells (label_id, hour, channels, count, delay_ms_max, delays)
SELECT rowid, :hour, :channels, :count, :delay_ms_max, :delays FROM labels WHERE label = :label
ON CONFLICT (label_id, hour, channels) DO UPDATE
SET count = excluded.count, delay_ms_max = excluded.delay_ms_max, delays = excluded.delays
"""
UNTOLD: Final = """
SELECT l.label, c.hour, c.channels, c.count, c.delay_ms_max, c.delays
FROM cells AS c INDEXED BY cells_untold CROSS JOIN labels AS l ON l.rowid = c.label_id
WHERE c.told < c.count ORDER BY c.hour LIMIT ?
"""
TOLD: Final = """
UPDATE cells SET told = :count WHERE label_id = (SELECT rowid FROM labels WHERE label = :label)
AND hour = :hour AND channels = :channels AND told < :count
"""
FORGET_TOLD: Final = "DELETE FROM cells WHERE hour < ? AND told >= count"
FORGET_OLDEST: Final = """
DELETE FROM cells WHERE (label_id, hour, channels) IN
(SELECT label_id, hour, channels FROM cells INDEXED BY cells_hour ORDER BY hour LIMIT ?)
"""
