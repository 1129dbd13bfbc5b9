"""Every SQL statement about blobs, each with a name and a why."""

from __future__ import annotations

from typing import Final

# Whoever stores or removes the object of a blob holds this until its commit: the two never overlap.
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('lake.blobs ' || $1, 0))"
TRY_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtextextended('lake.blobs ' || $1, 0))"

# A blob that somebody asks for is about to be referred to: its grace begins anew.
ASK: Final = """
UPDATE lake.blobs SET asked_at = now() WHERE sha256 = $1 AND condemned_at IS NULL RETURNING bytes
"""
LOOK: Final = "SELECT bytes FROM lake.blobs WHERE sha256 = $1 AND condemned_at IS NULL"
KEEP: Final = """
INSERT INTO lake.blobs (sha256, bytes, mime) VALUES ($1, $2, $3)
ON CONFLICT (sha256) DO UPDATE SET asked_at = now(), condemned_at = NULL
"""

# In the events' own transaction. A blob that is not there is noted too: it may come later, and a row without
# its blob can be found.
REFER: Final = """
INSERT INTO lake.blob_refs (event_id, sha256, lost)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[]) ORDER BY 1, 2
ON CONFLICT (event_id, sha256) DO NOTHING
"""

# What was asked for since then may have an event on its way: for the grace, and as long as a collector may
# hold one. Of a silent collector nothing newer than its last heartbeat is known, nor than what waited there;
# a day more, since a heartbeat takes its time and the age in it is by another machine's clock. An age that no
# clock tells is 317 years: with a time that does not exist nothing would ever be swept.
BEFORE: Final = """
SELECT least(now() - make_interval(secs => $1),
             (SELECT min(last_seen_at - interval '1 day' - make_interval(secs =>
                         CASE jsonb_typeof(report -> 'oldest_age_s')
                         WHEN 'number'
                         THEN greatest(0, least((report ->> 'oldest_age_s')::numeric, 1e10))::float8
                         ELSE 0 END))
                FROM lake.collectors))
"""
# The sweep goes through the table in the order of its key, so many rows a round: its cost does not grow. One
# reference of each is looked up; NOT EXISTS here would hash them all.
PAGE: Final = """
WITH page AS (
    SELECT sha256, asked_at, condemned_at FROM lake.blobs WHERE sha256 > $1 ORDER BY sha256 LIMIT $3
)
SELECT page.sha256, condemned_at IS NOT NULL OR (
         asked_at < $2 AND found.sha256 IS NULL) AS is_due
  FROM page LEFT JOIN LATERAL (
       SELECT r.sha256 FROM lake.blob_refs r WHERE r.sha256 = page.sha256 LIMIT 1) found ON true
 ORDER BY page.sha256
"""
# First it is said and committed, then the object goes, then the row: a crash between leaves it condemned.
CONDEMN: Final = """
UPDATE lake.blobs b SET condemned_at = now()
 WHERE sha256 = $1 AND (condemned_at IS NOT NULL OR (
         asked_at < $2
         AND NOT EXISTS (SELECT 1 FROM lake.blob_refs r WHERE r.sha256 = b.sha256)))
"""
REMOVE: Final = """
DELETE FROM lake.blobs b WHERE sha256 = $1 AND condemned_at IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM lake.blob_refs r WHERE r.sha256 = b.sha256) RETURNING sha256
"""
# Somebody referred to it meanwhile.
PARDON: Final = "UPDATE lake.blobs SET condemned_at = NULL WHERE sha256 = $1"
# The same when a crash came between the object's end and the row's: who has the bytes must be asked for them.
GIVE_UP: Final = "DELETE FROM lake.blobs WHERE sha256 = $1 AND condemned_at IS NOT NULL"
