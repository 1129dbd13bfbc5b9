"""What the inbox adds to the lake's metadata; the migrations make the same (a test compares the two)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from ingest.ddl import run_when

# The key's upper 16 bits keep it apart from every other advisory lock of this database. It is read before
# the lock is taken, and taken before the first nextval: what this transaction writes lies above it.
_RESERVE: Final = """
CREATE FUNCTION lake.reserve_seq() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(
                (24225::bigint << 48) | coalesce(pg_sequence_last_value('lake.log_seq'::regclass), 0));
            RETURN NULL;
        END
        $$
"""

# pg_sequence_last_value reads under the buffer's lock. A SELECT does not, and every 32 numbers nextval writes
# the one that it logs ahead into the tuple for a moment: 32 too high, below which rows still appear.
# The last number comes first: a writer that is not among the locks read after it takes only higher numbers.
_HORIZON: Final = """
CREATE FUNCTION lake.horizon() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
        DECLARE
            given bigint;
            reserved bigint;
        BEGIN
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'lake.horizon() needs READ COMMITTED: an older snapshot would skip rows'
                    USING ERRCODE = 'invalid_transaction_state';
            END IF;
            given := coalesce(pg_sequence_last_value('lake.log_seq'::regclass), 0);
            SELECT min(((classid::bigint & 65535) << 32) | objid::bigint) INTO reserved
              FROM pg_locks
             WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 16 = 24225
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
            RETURN least(given, reserved);
        END
        $$
"""
_COMMENTS: Final = (
    (
        "COMMENT ON FUNCTION lake.reserve_seq() IS "
        "'Before the first nextval of a transaction: publishes the seq above which its rows will lie'"
    ),
    (
        "COMMENT ON FUNCTION lake.horizon() IS "
        "'Up to this seq nothing new can appear; rows are read in a later statement than this'"
    ),
)

_TIME: Final = DateTime(timezone=True)
_NOW: Final = text("now()")

_INBOX: Final = """
CREATE VIEW lake.inbox AS
SELECT l.event_id, c.consumer, l.gateway, l.instance, l.kind, l.channel AS channel_first_seen,
       l.received_at AS first_seen_at, coalesce(s.last_seen_at, l.received_at) AS last_seen_at,
       coalesce(s.seen_count, 1) AS seen_count,
       CASE WHEN l.seq <= c.position AND f.seq IS NULL
             AND l.received_at > now() - interval '14 days'
            THEN coalesce((SELECT p.at FROM lake.inbox_progress p
                            WHERE p.consumer = c.consumer AND p.at >= l.received_at
                              AND p.positions[l.shard + 1] >= l.seq
                            ORDER BY p.at LIMIT 1), c.moved_at)
        END AS processed_at,
       f.last_error,
       CASE WHEN f.seq IS NOT NULL THEN f.state
            WHEN l.seq <= c.position THEN 'PROCESSED' ELSE 'NEW' END AS state,
       l.seq
  FROM lake.whatsapp_event_logs l
  LEFT JOIN lake.inbox_cursors c ON c.shard = l.shard
  LEFT JOIN lake.inbox_failures f ON f.consumer = c.consumer AND f.seq = l.seq
  LEFT JOIN lake.sightings s ON s.event_id = l.event_id
"""
_INBOX_COMMENT: Final = (
    "COMMENT ON VIEW lake.inbox IS "
    "'What became of each event, a row an event and consumer; processed_at is right to a few seconds'"
)


def add_order(metadata: MetaData, log: Table, partitions: Sequence[str]) -> None:
    """The functions and triggers that tell up to which seq the log is complete."""
    for statement in (_RESERVE, _HORIZON, *_COMMENTS):
        run_when(metadata, "before_create", statement)
    for suffix in ("", *partitions):
        run_when(
            log,
            "after_create",
            f"CREATE TRIGGER reserve_seq BEFORE INSERT ON lake.{log.name}{suffix} "
            "FOR EACH STATEMENT EXECUTE FUNCTION lake.reserve_seq()",
        )


def add_inbox(metadata: MetaData) -> None:
    """Cursors, parked events, samples of the progress, copies seen, and the view over all of them."""
    Table(
        "inbox_consumers",
        metadata,
        Column("name", Text, nullable=False),
        Column("added_at", _TIME, nullable=False, server_default=_NOW),
        Column("paused_at", _TIME),
        Column("paused_reason", Text),
        Column("guarded_from", BigInteger, nullable=False, server_default=text("0")),
        PrimaryKeyConstraint("name", name="inbox_consumers_pkey"),
        comment="Who reads the log by cursors, and who is paused",
    )
    Table(
        "inbox_cursors",
        metadata,
        Column("consumer", Text, nullable=False),
        Column("shard", SmallInteger, nullable=False),
        Column("position", BigInteger, nullable=False, server_default=text("0")),
        Column("moved_at", _TIME, nullable=False, server_default=_NOW),
        PrimaryKeyConstraint("consumer", "shard", name="inbox_cursors_pkey"),
        postgresql_with={"fillfactor": 20},  # room in the page for the next position: updates stay HOT
        comment="How far each consumer has read each shard; "
        "the lock on a row is the lease of who reads it now",
    )
    _add_failures(metadata)
    Table(
        "inbox_progress",
        metadata,
        Column("consumer", Text, nullable=False),
        Column("at", _TIME, nullable=False),
        Column("positions", ARRAY(BigInteger), nullable=False),
        PrimaryKeyConstraint("consumer", "at", name="inbox_progress_pkey"),
        comment="Samples of the cursors, a position a shard: when an event was processed",
    )
    Table(
        "sightings",
        metadata,
        Column("event_id", Uuid, nullable=False),
        Column("seen_count", Integer, nullable=False),
        Column("last_seen_at", _TIME, nullable=False, server_default=_NOW),
        PrimaryKeyConstraint("event_id", name="sightings_pkey"),
        postgresql_with={"fillfactor": 80},
        comment="Events that reached the backend more than once: how many copies, and when the last one came",
    )
    for statement in (_INBOX, _INBOX_COMMENT):
        run_when(metadata, "after_create", statement)


def _add_failures(metadata: MetaData) -> None:
    Table(
        "inbox_failures",
        metadata,
        Column("consumer", Text, nullable=False),
        Column("seq", BigInteger, nullable=False),
        Column("shard", SmallInteger, nullable=False),
        Column("event_id", Uuid, nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("due_at", _TIME),
        Column("state", Text, nullable=False),
        Column("last_error", Text, nullable=False),
        Column("first_failed_at", _TIME, nullable=False, server_default=_NOW),
        Column("failed_at", _TIME, nullable=False, server_default=_NOW),
        PrimaryKeyConstraint("consumer", "seq", name="inbox_failures_pkey"),
        CheckConstraint(
            "state = 'FAILED' AND due_at IS NOT NULL OR state = 'DEAD' AND due_at IS NULL",
            name="inbox_failures_state_check",
        ),
        Index("inbox_failures_due_idx", "consumer", "due_at", postgresql_where=text("state = 'FAILED'")),
        comment="Events that a rule failed on: tried again when due, or dead; a row goes when it succeeds",
    )
