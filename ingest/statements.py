"""Every SQL statement of ingest, each with a name and a why."""

from __future__ import annotations

from typing import Final

# One commit of the writer. Ids go first, in order (writers that share ids wait for each other and never
# deadlock); what was new is joined with the events, so an id and its event appear together or not at all.
# The order of the log's rows is the order of arrival, which is the order of seq. Row = ingest.row.Row.
# Columns of text come as array literals (ingest.lane), hence the two casts.
INSERT_EVENTS: Final = """
WITH fresh AS (
    INSERT INTO lake.event_ids (event_id, digest)
    SELECT event_id, digest FROM unnest($1::text::uuid[], $2::bytea[]) AS ids (event_id, digest)
     ORDER BY event_id
    ON CONFLICT (event_id) DO NOTHING
    RETURNING event_id
), logged AS (
    INSERT INTO lake.whatsapp_event_logs (
        event_id, digest, type, chat_jid, payload, shard, gateway, instance, scope, channel, kind,
        occurred_at, occurred_from, captured_at, flags, reader_error, envelope, sanitized,
        redacted, collector)
    SELECT r.event_id, r.digest, r.type, r.chat_jid, r.payload, r.shard, r.gateway, r.instance, r.scope,
           r.channel, r.kind, r.occurred_at, r.occurred_from, r.captured_at, r.flags::text[], r.reader_error,
           r.envelope, r.sanitized::text[], r.redacted::text[], r.collector
      FROM unnest($1::text::uuid[], $2::bytea[], $3::text::text[], $4::text::text[], $5::jsonb[],
                  $6::smallint[], $7::text::text[], $8::text::text[], $9::text::text[], $10::text::text[],
                  $11::text::text[], $12::timestamptz[], $13::text::text[], $14::timestamptz[],
                  $15::text::text[], $16::text::text[], $17::jsonb[], $18::text::text[], $19::text::text[],
                  $20::text::text[]) WITH ORDINALITY
           AS r (event_id, digest, type, chat_jid, payload, shard, gateway, instance, scope, channel, kind,
                 occurred_at, occurred_from, captured_at, flags, reader_error, envelope, sanitized, redacted,
                 collector, place)
      JOIN fresh ON fresh.event_id = r.event_id
     ORDER BY r.place
)
SELECT event_id FROM fresh
"""

# Copies of stored events, in one commit: each is counted, and the content of one with another digest is kept
# once. A copy whose digest is the stored one, or that meets an event without a digest, says nothing new.
# The rows are one an id and digest; the first copy ever stands in the log and counts as one.
COUNT_COPIES: Final = """
WITH copies AS (
    SELECT event_id, digest, payload, seen_count
      FROM unnest($1::uuid[], $2::bytea[], $3::jsonb[], $4::integer[])
           AS r (event_id, digest, payload, seen_count)
), seen AS (
    INSERT INTO lake.sightings AS s (event_id, seen_count)
    SELECT event_id, 1 + sum(seen_count) FROM copies GROUP BY event_id ORDER BY event_id
    ON CONFLICT (event_id) DO UPDATE
       SET seen_count = s.seen_count + excluded.seen_count - 1, last_seen_at = excluded.last_seen_at
), conflicting AS (
    INSERT INTO lake.conflicts AS c (event_id, digest, payload, seen_count)
    SELECT r.event_id, r.digest, r.payload, r.seen_count
      FROM copies r
      JOIN lake.event_ids ids ON ids.event_id = r.event_id AND ids.digest <> r.digest
     ORDER BY r.event_id, r.digest
    ON CONFLICT (event_id, digest) DO UPDATE SET seen_count = c.seen_count + excluded.seen_count
    RETURNING 1
)
SELECT count(*) FROM conflicting
"""

# An instance keeps the scope of its first stored event; the answer tells which one that is.
KEEP_SCOPES: Final = """
WITH given AS (
    SELECT DISTINCT ON (gateway, instance) gateway, instance, scope
      FROM unnest($1::text[], $2::text[], $3::text[]) AS g (gateway, instance, scope)
     ORDER BY gateway, instance
), added AS (
    INSERT INTO lake.scopes (gateway, instance, scope) SELECT gateway, instance, scope FROM given
    ON CONFLICT (gateway, instance) DO NOTHING
    RETURNING gateway, instance, scope
)
SELECT gateway, instance, scope FROM added
UNION ALL
SELECT s.gateway, s.instance, s.scope FROM lake.scopes s JOIN given USING (gateway, instance)
"""

SCOPE_TABLE: Final = "SELECT gateway, instance, scope FROM lake.scopes ORDER BY gateway, instance LIMIT $1"

# Beats of one boot only go forward, so that a replayed or late heartbeat changes nothing.
KEEP_HEARTBEAT: Final = """
INSERT INTO lake.collectors AS c (name, boot, beat, report) VALUES ($1, $2, $3, $4::jsonb - 'coverage')
ON CONFLICT (name) DO UPDATE
   SET boot = excluded.boot, beat = excluded.beat, report = excluded.report, last_seen_at = now()
 WHERE c.boot <> excluded.boot OR c.beat < excluded.beat
"""

PING: Final = "SELECT 1 FROM lake.event_ids LIMIT 1"
"""Reads our own table: a database without the schema is not ready."""

NOW: Final = "SELECT now()"
"""The database's clock: the only one that all processes share."""

# The watch: one process at a time decides about alerts; the others skip the round.
WATCH_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtext('lake.alerts watch'))"

LAST_BEATS: Final = """
SELECT name, extract(epoch FROM now() - last_seen_at)::float8 AS age_s, report
  FROM lake.collectors ORDER BY name LIMIT $1
"""

# A collector that is gone for good; one that was heard of since then is not.
RETIRE_COLLECTOR: Final = """
DELETE FROM lake.collectors WHERE name = $1 AND last_seen_at < now() - make_interval(secs => $2)
RETURNING last_seen_at
"""
COLLECTOR_NAMES: Final = "SELECT name FROM lake.collectors ORDER BY last_seen_at DESC LIMIT $1"

# For /metrics: the collectors heard of last; one that is gone for good falls out in the end.
HEARTBEAT_AGES: Final = """
SELECT name, extract(epoch FROM now() - last_seen_at)::float8 AS age_s
  FROM lake.collectors ORDER BY last_seen_at DESC LIMIT $1
"""

RAISE_ALERTS: Final = """
INSERT INTO lake.alerts (name, subject, detail)
SELECT name, subject, detail FROM unnest($1::text[], $2::text[], $3::jsonb[]) AS r (name, subject, detail)
ON CONFLICT (name, subject) WHERE resolved_at IS NULL DO NOTHING
RETURNING name, subject
"""

# An alert that stays is repeated slowly: the row's time moves, and the log says it again.
REPEAT_ALERTS: Final = """
UPDATE lake.alerts a
   SET repeated_at = now(), repeated_count = a.repeated_count + 1, detail = r.detail
  FROM unnest($1::text[], $2::text[], $3::jsonb[]) AS r (name, subject, detail)
 WHERE a.name = r.name AND a.subject = r.subject AND a.resolved_at IS NULL
   AND a.repeated_at < now() - make_interval(secs => $4)
RETURNING a.name, a.subject
"""

OPEN_ALERTS: Final = """
SELECT name, subject, extract(epoch FROM now() - repeated_at)::float8 AS quiet_s, raised_at
  FROM lake.alerts WHERE resolved_at IS NULL
"""

RESOLVE_ALERTS: Final = """
UPDATE lake.alerts a SET resolved_at = now()
  FROM unnest($1::text[], $2::text[]) AS r (name, subject)
 WHERE a.name = r.name AND a.subject = r.subject AND a.resolved_at IS NULL
RETURNING a.name, a.subject
"""

# Months are made by one process at a time; it waits, so that all that start together find them made.
MONTHS_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('lake.whatsapp_event_logs months'))"

# For one transaction: bounds are told and taken in UTC, and no month stops ingest for longer than $1 to get
# its lock, nor than $2 when the process that has it stands still.
MONTHS_SETTINGS: Final = """
SELECT set_config('timezone', 'UTC', true), set_config('lock_timeout', $1, true),
       set_config('idle_in_transaction_session_timeout', $2, true)
"""

# The bounds are read back from the catalogue: the tables are the only record of which months there are.
MONTH_BOUNDS: Final = """
SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) AS bounds
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'lake.whatsapp_event_logs'::regclass
"""

# DDL takes no parameters: these two are templates that ingest.partitions fills with quoted names and times.
# In a new database the catch-alls meet; here they come to meet at the current month.
MOVE_EPOCH: Final = """
LOCK TABLE lake.whatsapp_event_logs IN ACCESS EXCLUSIVE MODE;
ALTER TABLE lake.whatsapp_event_logs DETACH PARTITION lake.whatsapp_event_logs_past;
ALTER TABLE lake.whatsapp_event_logs DETACH PARTITION lake.whatsapp_event_logs_future;
WITH moved AS (DELETE FROM lake.whatsapp_event_logs_future WHERE received_at < {current} RETURNING *)
INSERT INTO lake.whatsapp_event_logs_past SELECT * FROM moved;
WITH moved AS (DELETE FROM lake.whatsapp_event_logs_past WHERE received_at >= {current} RETURNING *)
INSERT INTO lake.whatsapp_event_logs_future SELECT * FROM moved;
ALTER TABLE lake.whatsapp_event_logs ATTACH PARTITION lake.whatsapp_event_logs_past
    FOR VALUES FROM (MINVALUE) TO ({current});
ALTER TABLE lake.whatsapp_event_logs ATTACH PARTITION lake.whatsapp_event_logs_future
    FOR VALUES FROM ({current}) TO (MAXVALUE);
"""

# A month is cut from the catch-all behind the last one, with the rows that already lie there. Its indexes
# come with ATTACH; the statement trigger does not, and an insert into the month itself needs it too.
MAKE_MONTH: Final = """
LOCK TABLE lake.whatsapp_event_logs IN ACCESS EXCLUSIVE MODE;
CREATE TABLE lake.{month} (LIKE lake.whatsapp_event_logs INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
ALTER TABLE lake.whatsapp_event_logs DETACH PARTITION lake.whatsapp_event_logs_future;
WITH moved AS (DELETE FROM lake.whatsapp_event_logs_future WHERE received_at < {end} RETURNING *)
INSERT INTO lake.{month} SELECT * FROM moved;
CREATE TRIGGER reserve_seq BEFORE INSERT ON lake.{month}
    FOR EACH STATEMENT EXECUTE FUNCTION lake.reserve_seq();
ALTER TABLE lake.whatsapp_event_logs ATTACH PARTITION lake.{month} FOR VALUES FROM ({start}) TO ({end});
ALTER TABLE lake.whatsapp_event_logs ATTACH PARTITION lake.whatsapp_event_logs_future
    FOR VALUES FROM ({end}) TO (MAXVALUE);
"""
