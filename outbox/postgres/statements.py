"""Every SQL statement of the Postgres store, each with a name and a why.

Time is ``engine.now()``, the database's clock_timestamp(): one clock for all workers, and it goes on within a
long transaction. It stands in a scalar subquery, so that it is read once a statement and an index can be
searched with it. Lists travel as arrays: one statement a batch. Each change of a held record has
``lease = mine`` (law 4).
"""

from __future__ import annotations

from typing import Final

# The id decides whether a record is new, in the one UNIQUE of waiting, dead and delivered. Ids go in sorted,
# so that two callers with the same ids wait for each other and never deadlock; rows go in the call's order.
ENQUEUE: Final = """
WITH given AS MATERIALIZED (
    SELECT nextval('engine.rowid_seq') AS rowid, r.*
      FROM unnest($2::text[], $3::bytea[], $4::text[], $5::smallint[], $6::timestamptz[]) WITH ORDINALITY
           AS r (id, body, label, priority, due_at, place)
), fresh AS (
    INSERT INTO engine.ids (queue, id, rowid, created_at)
    SELECT $1, id, rowid, (SELECT engine.now()) FROM given ORDER BY id
    ON CONFLICT (queue, id) DO NOTHING
    RETURNING rowid, created_at
)
INSERT INTO engine.records (rowid, queue, id, state, priority, due_at, created_at, label, body)
SELECT g.rowid, $1, g.id, 'waiting', coalesce(g.priority, 0), coalesce(g.due_at, fresh.created_at),
       fresh.created_at, coalesce(g.label, ''), g.body
  FROM given AS g JOIN fresh ON fresh.rowid = g.rowid
 ORDER BY g.place
RETURNING id
"""

# By priority, then due_at, then order of arrival. Each priority (to config.PRIORITY_MAX) is asked by itself:
# one search from its first due row to its last, so that what is due tomorrow costs nothing, be it millions.
# SKIP LOCKED: workers take different rows and never wait for each other. MATERIALIZED, because a plan that
# repeats the search would lock more than it returns. Rows above the bytes were locked for nothing; they are
# free again at COMMIT. The lease's number is drawn once a claim and never again: a fencing token.
CLAIM: Final = """
WITH due AS MATERIALIZED (
    SELECT first.rowid, level.priority, first.due_at, first.size
      FROM generate_series(0, 9) AS level (priority)
     CROSS JOIN LATERAL (
        SELECT rowid, due_at, octet_length(body) AS size
          FROM engine.records
         WHERE queue = $1 AND state = 'waiting' AND priority = level.priority
           AND due_at <= (SELECT engine.now())
         ORDER BY due_at, rowid
         LIMIT $2
           FOR UPDATE SKIP LOCKED
     ) AS first
     LIMIT $2
), summed AS (
    SELECT rowid, row_number() OVER in_order AS place, sum(size) OVER in_order AS size
      FROM due WINDOW in_order AS (ORDER BY priority, due_at, rowid)
)
UPDATE engine.records AS r
   SET state = 'claimed', lease = (SELECT nextval('engine.lease_seq')),
       lease_until = (SELECT engine.now()) + $4
  FROM summed
 WHERE r.rowid = summed.rowid AND (summed.place = 1 OR summed.size <= $3)
RETURNING summed.place, r.rowid, r.id, r.body, r.label, r.attempts, r.created_at, r.lease
"""

# The reconciler's claim: the same of what is unknown, asked about in the order in which it may be.
CLAIM_UNKNOWN: Final = """
WITH due AS MATERIALIZED (
    SELECT rowid, row_number() OVER (ORDER BY due_at, rowid) AS place
      FROM (
        SELECT rowid, due_at
          FROM engine.records
         WHERE queue = $1 AND state = 'unknown' AND due_at <= (SELECT engine.now())
         ORDER BY due_at, rowid
         LIMIT $2
           FOR UPDATE SKIP LOCKED
      ) AS first
)
UPDATE engine.records AS r
   SET state = 'asked', lease = (SELECT nextval('engine.lease_seq')),
       lease_until = (SELECT engine.now()) + $3
  FROM due
 WHERE r.rowid = due.rowid
RETURNING due.place, r.rowid, r.id, r.body, r.label, r.attempts, r.created_at, r.lease
"""

# Delivered: the row goes, its id stays where it is. Nothing of history lies among what waits.
DELIVER: Final = """
DELETE FROM engine.records AS r
 USING unnest($1::bigint[], $2::bigint[]) AS mine (rowid, lease)
 WHERE r.rowid = mine.rowid AND r.lease = mine.lease
"""

# What is to come back, as waiting or as unknown ($7). A delay, not a time: how long after now was decided by
# a worker whose clock may be wrong.
COME_BACK: Final = """
UPDATE engine.records AS r
   SET state = $7, lease = NULL, lease_until = NULL, due_at = (SELECT engine.now()) + mine.delay,
       attempts = r.attempts + mine.spent, status = mine.status, waits_because = mine.reason
  FROM unnest($1::bigint[], $2::bigint[], $3::interval[], $4::integer[], $5::integer[], $6::text[])
       AS mine (rowid, lease, delay, spent, status, reason)
 WHERE r.rowid = mine.rowid AND r.lease = mine.lease
"""

BURY: Final = """
WITH gone AS (
    DELETE FROM engine.records AS r
     USING unnest($1::bigint[], $2::bigint[], $3::integer[], $4::text[]) WITH ORDINALITY
           AS mine (rowid, lease, status, reason, place)
     WHERE r.rowid = mine.rowid AND r.lease = mine.lease
    RETURNING mine.place, mine.status, mine.reason, r.queue, r.id, r.priority, r.attempts, r.created_at,
              r.label, r.body
)
INSERT INTO engine.dead (queue, id, priority, attempts, status, reason, created_at, died_at, label, body)
SELECT queue, id, priority, attempts + 1, status, reason, created_at, (SELECT engine.now()), label, body
  FROM gone ORDER BY place
"""

# As it was before the claim: nothing else of the row changes.
RELEASE: Final = """
UPDATE engine.records AS r
   SET state = CASE r.state WHEN 'asked' THEN 'unknown' ELSE 'waiting' END, lease = NULL, lease_until = NULL
  FROM unnest($1::bigint[], $2::bigint[]) AS mine (rowid, lease)
 WHERE r.rowid = mine.rowid AND r.lease = mine.lease
"""

# A row that is being settled at this moment is skipped: waiting for it could deadlock, and its lease ends.
RENEW: Final = """
WITH held AS MATERIALIZED (
    SELECT r.rowid
      FROM unnest($1::bigint[], $2::bigint[]) AS mine (rowid, lease)
      JOIN engine.records AS r ON r.rowid = mine.rowid AND r.lease = mine.lease
       FOR NO KEY UPDATE OF r SKIP LOCKED
)
UPDATE engine.records AS r SET lease_until = (SELECT engine.now()) + $3
  FROM held
 WHERE r.rowid = held.rowid
RETURNING r.rowid
"""

# What a worker left behind. The index holds what is leased now, a few rows, and is not changed by a renewal.
# Whether a lapsed try may be repeated is the queue's policy ($3: the state of what was claimed); of what was
# unknown already nothing became known.
SWEEP: Final = """
WITH lapsed AS MATERIALIZED (
    SELECT rowid FROM engine.records
     WHERE queue = $1 AND state IN ('claimed', 'asked') AND lease_until < (SELECT engine.now())
     LIMIT $2
       FOR UPDATE SKIP LOCKED
)
UPDATE engine.records AS r
   SET state = CASE r.state WHEN 'asked' THEN 'unknown' ELSE $3 END, lease = NULL, lease_until = NULL,
       lapses = r.lapses + 1, waits_because = 'its lease ran out'
  FROM lapsed
 WHERE r.rowid = lapsed.rowid
RETURNING r.id, r.label, r.state, r.lapses
"""

# How far away the first due row is: one search a priority. An interval, so that the asker may add it to a
# clock of its own.
NEXT_DUE: Final = """
SELECT min(first.due_at) - (SELECT engine.now())
  FROM generate_series(0, 9) AS level (priority)
 CROSS JOIN LATERAL (
    SELECT due_at FROM engine.records
     WHERE queue = $1 AND state = 'waiting' AND priority = level.priority
     ORDER BY due_at, rowid LIMIT 1
 ) AS first
"""

# Reads all that waits: for a status every few seconds, not for a loop.
STATS: Final = """
SELECT count(*) AS waiting, count(*) FILTER (WHERE state IN ('claimed', 'asked')) AS claimed,
       count(*) FILTER (WHERE state IN ('unknown', 'asked')) AS unknown,
       min(created_at) AS oldest_at, coalesce(sum(octet_length(body)), 0)::bigint AS bytes,
       (SELECT count(*) FROM engine.dead WHERE queue = $1) AS dead
  FROM engine.records WHERE queue = $1
"""

# dead letters: rowid order is the order of death
DEAD_LIST: Final = """
SELECT rowid, id, label, status, reason, attempts, created_at, died_at, octet_length(body) AS size,
       NULL::bytea AS body
  FROM engine.dead WHERE queue = $1 AND rowid > $2 ORDER BY rowid LIMIT $3
"""
DEAD_SHOW: Final = """
SELECT rowid, id, label, status, reason, attempts, created_at, died_at, octet_length(body) AS size, body
  FROM engine.dead WHERE queue = $1 AND id = $2
"""

# A page of dead letters ($2: of these ids, NULL: any) arrives anew, so that the queue stays in the order of
# arrival; its ids are known from now on again.
DEAD_REQUEUE: Final = """
WITH chosen AS (
    DELETE FROM engine.dead WHERE rowid IN (
        SELECT rowid FROM engine.dead WHERE queue = $1 AND ($2::text[] IS NULL OR id = ANY ($2))
         ORDER BY rowid LIMIT $3 FOR UPDATE SKIP LOCKED)
    RETURNING *
), again AS MATERIALIZED (
    SELECT nextval('engine.rowid_seq') AS fresh, (SELECT engine.now()) AS at, c.*
      FROM (SELECT * FROM chosen ORDER BY rowid) AS c
), known AS (
    UPDATE engine.ids AS i SET rowid = again.fresh, created_at = again.at
      FROM again WHERE i.queue = again.queue AND i.id = again.id
)
INSERT INTO engine.records (rowid, queue, id, state, priority, due_at, created_at, label, body)
SELECT fresh, queue, id, 'waiting', priority, at, created_at, label, body FROM again ORDER BY fresh
"""
DEAD_DROP: Final = """
WITH chosen AS (
    DELETE FROM engine.dead WHERE rowid IN (
        SELECT rowid FROM engine.dead WHERE queue = $1 AND ($2::text[] IS NULL OR id = ANY ($2))
         ORDER BY rowid LIMIT $3 FOR UPDATE SKIP LOCKED)
    RETURNING queue, id
)
DELETE FROM engine.ids AS i USING chosen WHERE i.queue = chosen.queue AND i.id = chosen.id
"""

# Ids of what is over, oldest first. What still waits or lies dead keeps its id, however old it is; scalar
# subqueries, since a join would read all of what waits and sort all that is old.
FORGET: Final = """
DELETE FROM engine.ids AS i
 USING (
    SELECT queue, id FROM engine.ids AS old
     WHERE queue = $1 AND created_at < (SELECT engine.now()) - $2::interval
       AND (SELECT r.rowid FROM engine.records AS r WHERE r.rowid = old.rowid) IS NULL
       AND (SELECT d.rowid FROM engine.dead AS d WHERE d.queue = old.queue AND d.id = old.id) IS NULL
     ORDER BY created_at LIMIT $3
       FOR UPDATE SKIP LOCKED
 ) AS over
 WHERE i.queue = over.queue AND i.id = over.id
"""
