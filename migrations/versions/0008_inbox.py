"""The inbox: cursors of the log's readers, parked events, samples of the progress, copies seen, the view."""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    _make_cursors()
    _make_failures()
    _make_counts()
    _make_view()


def _make_cursors() -> None:
    op.execute("""
        CREATE TABLE lake.inbox_consumers (
            name text NOT NULL,
            added_at timestamptz NOT NULL DEFAULT now(),
            paused_at timestamptz,
            paused_reason text,
            guarded_from bigint NOT NULL DEFAULT 0,
            CONSTRAINT inbox_consumers_pkey PRIMARY KEY (name)
        )
    """)
    op.execute("COMMENT ON TABLE lake.inbox_consumers IS 'Who reads the log by cursors, and who is paused'")
    op.execute("""
        CREATE TABLE lake.inbox_cursors (
            consumer text NOT NULL,
            shard smallint NOT NULL,
            position bigint NOT NULL DEFAULT 0,
            moved_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT inbox_cursors_pkey PRIMARY KEY (consumer, shard)
        ) WITH (fillfactor = 20)
    """)
    op.execute("""
        COMMENT ON TABLE lake.inbox_cursors IS
        'How far each consumer has read each shard; the lock on a row is the lease of who reads it now'
    """)


def _make_failures() -> None:
    op.execute("""
        CREATE TABLE lake.inbox_failures (
            consumer text NOT NULL,
            seq bigint NOT NULL,
            shard smallint NOT NULL,
            event_id uuid NOT NULL,
            attempts integer NOT NULL,
            due_at timestamptz,
            state text NOT NULL,
            last_error text NOT NULL,
            first_failed_at timestamptz NOT NULL DEFAULT now(),
            failed_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT inbox_failures_pkey PRIMARY KEY (consumer, seq),
            CONSTRAINT inbox_failures_state_check CHECK (
                state = 'FAILED' AND due_at IS NOT NULL OR state = 'DEAD' AND due_at IS NULL)
        )
    """)
    op.execute("""
        COMMENT ON TABLE lake.inbox_failures IS
        'Events that a rule failed on: tried again when due, or dead; a row goes when it succeeds'
    """)
    op.execute("""
        CREATE INDEX inbox_failures_due_idx ON lake.inbox_failures (consumer, due_at) WHERE state = 'FAILED'
    """)


def _make_counts() -> None:
    op.execute("""
        CREATE TABLE lake.inbox_progress (
            consumer text NOT NULL,
            at timestamptz NOT NULL,
            positions bigint[] NOT NULL,
            CONSTRAINT inbox_progress_pkey PRIMARY KEY (consumer, at)
        )
    """)
    op.execute("""
        COMMENT ON TABLE lake.inbox_progress IS
        'Samples of the cursors, a position a shard: when an event was processed'
    """)
    op.execute("""
        CREATE TABLE lake.sightings (
            event_id uuid NOT NULL,
            seen_count integer NOT NULL,
            last_seen_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT sightings_pkey PRIMARY KEY (event_id)
        ) WITH (fillfactor = 80)
    """)
    op.execute("""
        COMMENT ON TABLE lake.sightings IS
        'Events that reached the backend more than once: how many copies, and when the last one came'
    """)


def _make_view() -> None:
    op.execute("""
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
    """)
    op.execute("""
        COMMENT ON VIEW lake.inbox IS
        'What became of each event, a row an event and consumer; processed_at is right to a few seconds'
    """)
