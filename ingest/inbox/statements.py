"""Every SQL statement of the inbox, each with a name and a why."""

from __future__ import annotations

from typing import Final

from ingest.inbox.config import InboxConfig

# One round trip; the settings live as long as the transaction, so that a pooler may stand between. The lock
# on a cursor is the lease: a worker that stands still loses it with its session. The log is only ever walked
# along its index: what the planner knows of a new month is old, and then it would sort a whole backlog for
# the first rows of it.
BEGIN: Final = """
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL synchronous_commit = on;
SET LOCAL statement_timeout = {statement_ms};
SET LOCAL idle_in_transaction_session_timeout = {idle_ms};
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;
SET LOCAL jit = off;
SET LOCAL application_name = 'zaplake-inbox-batch';
"""


def begin(config: InboxConfig) -> str:
    """The statement that begins a transaction of the inbox."""
    return BEGIN.format(
        statement_ms=round(config.statement_s_max * 1000), idle_ms=round(config.idle_s_max * 1000)
    )


COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"

# A worker that stands still after Parse and before Bind is not "idle in transaction" for Postgres, and no
# timeout ends it: whoever looks for work does. state_change is when the server began to wait for it.
FREE_STUCK: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE application_name = 'zaplake-inbox-batch' AND datname = current_database() AND usename = current_user
   AND state = 'active' AND wait_event = 'ClientRead'
   AND state_change < clock_timestamp() - make_interval(secs => $1)
"""

# Halves of a batch are tried one by one; what one of them did is undone alone.
SAVEPOINT: Final = "SAVEPOINT part"
ROLLBACK_PART: Final = "ROLLBACK TO SAVEPOINT part"
RELEASE_PART: Final = "RELEASE SAVEPOINT part"

# A new consumer begins with the first event of the log.
ADD_CONSUMERS: Final = """
INSERT INTO lake.inbox_consumers (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING
"""
ADD_CURSORS: Final = """
INSERT INTO lake.inbox_cursors (consumer, shard)
SELECT name, shard FROM unnest($1::text[]) AS name CROSS JOIN generate_series(0, $2::integer - 1) AS shard
ON CONFLICT DO NOTHING
"""

HORIZON: Final = "SELECT lake.horizon()"
"""Never in the statement that reads: with one snapshot, rows that commit in between would be skipped."""

# Where the cursors are; none of a paused consumer. Not asked for every look: while somebody's snapshot is
# open (a dump takes hours), every position that a cursor ever had since then is passed over to find the last.
CURSORS: Final = """
SELECT c.shard, c.position
  FROM lake.inbox_cursors c JOIN lake.inbox_consumers k ON k.name = c.consumer AND k.paused_at IS NULL
 WHERE c.consumer = $1
"""

# Which shards have something to read: one probe of (shard, seq) each, no lock.
FIND_WORK: Final = """
SELECT c.shard FROM unnest($1::smallint[], $2::bigint[]) AS c (shard, position)
 WHERE (SELECT true FROM lake.whatsapp_event_logs l
         WHERE l.shard = c.shard AND l.seq > c.position AND l.seq <= $3 ORDER BY l.seq LIMIT 1)
"""

# Whoever has the row has the shard. A paused consumer gives none. The horizon is that of the session which
# reads in its next statement: another session may be on a standby, where nobody's reservation is seen.
CLAIM: Final = """
SELECT c.shard, c.position, k.guarded_from, (SELECT lake.horizon()) AS horizon
  FROM lake.inbox_cursors c JOIN lake.inbox_consumers k ON k.name = c.consumer AND k.paused_at IS NULL
 WHERE c.consumer = $1 AND c.shard = ANY ($2::smallint[])
   FOR UPDATE OF c SKIP LOCKED
"""

# The next events of some shards, in order within each. The columns are only read for kinds that a rule asks
# for ($5, payloads $6; NULL is all); the others just move the cursor. A payload of more bytes than $7 stays
# where it is: a batch shall fit into memory. What is stored compressed may be a hundred times as large, so
# of more than $8 stored bytes the text is measured. Limits are parameters: as literals they led to a worse
# generic plan. The outer limit lets one full shard have the batch for itself.
READ: Final = """
SELECT l.shard, l.seq, w.*
  FROM unnest($1::smallint[], $2::bigint[]) AS c (shard, position)
 CROSS JOIN LATERAL (
    SELECT *, CASE WHEN $6::text[] IS NOT NULL AND coalesce(kind <> ALL ($6), true) THEN false
                   WHEN pg_column_size(payload) + coalesce(pg_column_size(envelope), 0) > $7 THEN false
                   WHEN (pg_column_compression(payload) IS NULL OR pg_column_size(payload) <= $8)
                    AND (pg_column_compression(envelope) IS NULL OR pg_column_size(envelope) <= $8) THEN true
                   ELSE octet_length(payload::text) + coalesce(octet_length(envelope::text), 0) <= $7
               END AS is_small
      FROM lake.whatsapp_event_logs g
     WHERE g.shard = c.shard AND g.seq > c.position AND g.seq <= $3
     ORDER BY g.seq LIMIT $4) l
  LEFT JOIN LATERAL (
    SELECT l.event_id, l.kind, l.type, l.gateway, l.instance, l.scope, l.chat_jid, l.occurred_at,
           l.received_at,
           CASE WHEN l.is_small THEN l.payload END, CASE WHEN l.is_small THEN l.envelope END
     WHERE $5::text[] IS NULL OR l.kind = ANY ($5)) w ON true
 LIMIT $4
"""

# In the transaction of the effects: both are there, or neither.
SETTLE: Final = """
UPDATE lake.inbox_cursors c SET position = r.position, moved_at = clock_timestamp()
  FROM unnest($2::smallint[], $3::bigint[]) AS r (shard, position)
 WHERE c.consumer = $1 AND c.shard = r.shard
RETURNING c.shard
"""

# A parked event; its shard goes on. Met again (a replay), it counts on.
PARK: Final = """
INSERT INTO lake.inbox_failures AS f (consumer, seq, shard, event_id, attempts, due_at, state, last_error)
SELECT $1, r.seq, r.shard, r.event_id, r.attempts, now() + make_interval(secs => r.delay_s),
       CASE WHEN r.delay_s IS NULL THEN 'DEAD' ELSE 'FAILED' END, r.error
  FROM unnest($2::bigint[], $3::smallint[], $4::uuid[], $5::integer[], $6::float8[], $7::text[])
       AS r (seq, shard, event_id, attempts, delay_s, error)
 ORDER BY r.seq
ON CONFLICT (consumer, seq) DO UPDATE
   SET attempts = excluded.attempts, due_at = excluded.due_at, state = excluded.state,
       last_error = excluded.last_error, failed_at = now()
"""

ANY_DUE: Final = """
SELECT FROM lake.inbox_failures f JOIN lake.inbox_consumers k ON k.name = f.consumer AND k.paused_at IS NULL
 WHERE f.consumer = $1 AND f.state = 'FAILED' AND f.due_at <= now() LIMIT 1
"""

# Parked events whose time has come.
CLAIM_DUE: Final = """
SELECT f.shard, f.seq, f.attempts
  FROM lake.inbox_failures f
 WHERE f.consumer = $1 AND f.state = 'FAILED' AND f.due_at <= now()
 ORDER BY f.due_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""
# Single events with all they have; one that was archived meanwhile is not among them.
READ_WHOLE: Final = """
SELECT l.shard, l.seq, l.event_id, l.kind, l.type, l.gateway, l.instance, l.scope, l.chat_jid, l.occurred_at,
       l.received_at, l.payload, l.envelope
  FROM unnest($1::smallint[], $2::bigint[]) AS r (shard, seq)
 CROSS JOIN LATERAL (
    SELECT * FROM lake.whatsapp_event_logs g WHERE g.shard = r.shard AND g.seq = r.seq LIMIT 1) l
"""
UNPARK: Final = "DELETE FROM lake.inbox_failures WHERE consumer = $1 AND seq = ANY ($2::bigint[])"
LOSE_PARKED: Final = """
UPDATE lake.inbox_failures SET state = 'DEAD', due_at = NULL, last_error = $3
 WHERE consumer = $1 AND seq = ANY ($2::bigint[])
"""

PAUSE: Final = """
UPDATE lake.inbox_consumers SET paused_at = now(), paused_reason = $2
 WHERE name = $1 AND paused_at IS NULL RETURNING name
"""

# Where the cursors were at a moment, now and then, so that people can see when an event was processed. Only
# when they moved; several processes share the period.
SAMPLE_PROGRESS: Final = """
INSERT INTO lake.inbox_progress (consumer, at, positions)
SELECT c.consumer, now(), array_agg(c.position ORDER BY c.shard)
  FROM lake.inbox_cursors c
  LEFT JOIN LATERAL (SELECT at, positions FROM lake.inbox_progress p WHERE p.consumer = c.consumer
                      ORDER BY at DESC LIMIT 1) last ON true
 WHERE c.consumer = ANY ($1::text[]) AND (last.at IS NULL OR last.at <= now() - make_interval(secs => $2))
 GROUP BY c.consumer, last.positions
HAVING array_agg(c.position ORDER BY c.shard) IS DISTINCT FROM last.positions
ON CONFLICT DO NOTHING
"""
# All that is known of a paused consumer; of one that is not, nothing goes. Whoever is in a batch holds its
# cursors: their deletion waits for the end of it, and what it parked is seen by the statements after that.
FORGET: Final = """
DELETE FROM lake.inbox_consumers WHERE name = $1 AND paused_at IS NOT NULL RETURNING name
"""
FORGET_CURSORS: Final = "DELETE FROM lake.inbox_cursors WHERE consumer = $1"
FORGET_REST: Final = (
    "DELETE FROM lake.inbox_failures WHERE consumer = $1",
    "DELETE FROM lake.inbox_progress WHERE consumer = $1",
)
FORGET_PROGRESS: Final = """
DELETE FROM lake.inbox_progress WHERE consumer = ANY ($1::text[]) AND at < now() - make_interval(secs => $2)
"""

# How far behind a consumer is: of each shard the unread events, $3 at most, and the first one's age.
LAG: Final = """
SELECT coalesce(sum(u.events), 0)::bigint AS unread, coalesce(bool_or(u.events >= $3), false) AS is_more,
       coalesce(extract(epoch FROM now() - min(u.first_at)), 0)::float8 AS oldest_s
  FROM lake.inbox_cursors c
 CROSS JOIN LATERAL (
    SELECT count(*) AS events, min(received_at) AS first_at
      FROM (SELECT received_at FROM lake.whatsapp_event_logs l
             WHERE l.shard = c.shard AND l.seq > c.position AND l.seq <= $2
             ORDER BY l.seq LIMIT $3) unread) u
 WHERE c.consumer = $1
"""
PARKED: Final = """
SELECT count(*) FILTER (WHERE state = 'FAILED') AS failed, count(*) FILTER (WHERE state = 'DEAD') AS dead
  FROM lake.inbox_failures WHERE consumer = $1
"""

CONSUMERS: Final = "SELECT name, paused_at, paused_reason FROM lake.inbox_consumers ORDER BY name"

# What a person must look at comes first.
FAILURES: Final = """
SELECT consumer, seq, event_id, state, attempts, due_at, failed_at, last_error FROM lake.inbox_failures
 WHERE $1::text IS NULL OR consumer = $1
 ORDER BY state, failed_at DESC LIMIT $2
"""

REVIVE: Final = """
UPDATE lake.inbox_failures SET state = 'FAILED', attempts = 0, due_at = now()
 WHERE consumer = $1 AND state = 'DEAD' AND ($2::uuid[] IS NULL OR event_id = ANY ($2))
RETURNING seq
"""

# The arrival of an event and its number agree but for the length of a commit: all from the least one on.
FIRST_SINCE: Final = "SELECT min(seq) FROM lake.whatsapp_event_logs WHERE received_at >= $1"

# A batch that runs ends first; then nobody can move a cursor forward over what is to be read again.
LOCK_CURSORS: Final = "SELECT FROM lake.inbox_cursors WHERE consumer = $1 ORDER BY shard FOR UPDATE"
MOVE_BACK: Final = "UPDATE lake.inbox_cursors SET position = $2 WHERE consumer = $1 AND position > $2"
FORGET_FAILURES: Final = "DELETE FROM lake.inbox_failures WHERE consumer = $1 AND seq >= $2"

RESUME: Final = """
UPDATE lake.inbox_consumers
   SET paused_at = NULL, paused_reason = NULL, guarded_from = greatest(guarded_from, $2)
 WHERE name = $1 AND paused_at IS NOT NULL RETURNING name
"""

# For the watch: the oldest transaction that holds the horizon back while numbers go on, how long each
# consumer's oldest unread event has waited, and what is parked for good.
STALLED: Final = """
SELECT extract(epoch FROM now() - min(a.xact_start))::float8 AS age_s
  FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid, lake.log_seq s
 WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.classid::bigint >> 16 = 24225
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND (CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END)
       > ((l.classid::bigint & 65535) << 32) | l.objid::bigint
"""
TROUBLE: Final = """
SELECT k.name, k.paused_at IS NOT NULL AS is_paused, coalesce(k.paused_reason, '') AS reason,
       (SELECT count(*) FROM lake.inbox_failures f WHERE f.consumer = k.name AND f.state = 'DEAD') AS dead,
       coalesce((SELECT extract(epoch FROM now() - min(u.received_at))
                   FROM lake.inbox_cursors c
                  CROSS JOIN LATERAL (
                     SELECT received_at FROM lake.whatsapp_event_logs l
                      WHERE l.shard = c.shard AND l.seq > c.position ORDER BY l.seq LIMIT 1) u
                  WHERE c.consumer = k.name), 0)::float8 AS oldest_s
  FROM lake.inbox_consumers k ORDER BY k.name
"""
