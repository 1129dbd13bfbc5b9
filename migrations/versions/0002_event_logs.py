"""The log of events, partitioned by the time of arrival, with a catch-all at both ends (never a DEFAULT)."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute("CREATE SEQUENCE lake.log_seq AS bigint CACHE 1")
    op.execute("""
        CREATE TABLE lake.whatsapp_event_logs (
            id uuid NOT NULL DEFAULT gen_random_uuid(),
            event_id uuid NOT NULL,
            type text NOT NULL,
            chat_jid text,
            received_at timestamptz NOT NULL DEFAULT now(),
            payload jsonb NOT NULL,
            seq bigint NOT NULL DEFAULT nextval('lake.log_seq'),
            shard smallint NOT NULL,
            gateway text,
            instance text,
            scope text,
            channel text,
            kind text,
            occurred_at timestamptz,
            occurred_from text,
            captured_at timestamptz,
            digest bytea,
            flags text[],
            reader_error text,
            envelope jsonb,
            sanitized text[],
            redacted text[],
            collector text,
            CONSTRAINT whatsapp_event_logs_type_check CHECK (char_length(type) BETWEEN 1 AND 100)
        ) PARTITION BY RANGE (received_at)
    """)
    op.execute("""
        COMMENT ON TABLE lake.whatsapp_event_logs IS 'One committed event a row, as the gateway sent it'
    """)
    op.execute("""
        CREATE INDEX whatsapp_event_logs_received_at_idx ON lake.whatsapp_event_logs USING brin (received_at)
    """)
    op.execute("""
        CREATE TABLE lake.whatsapp_event_logs_past PARTITION OF lake.whatsapp_event_logs
        FOR VALUES FROM (MINVALUE) TO ('2026-01-01 00:00:00+00')
    """)
    op.execute("""
        CREATE TABLE lake.whatsapp_event_logs_future PARTITION OF lake.whatsapp_event_logs
        FOR VALUES FROM ('2026-01-01 00:00:00+00') TO (MAXVALUE)
    """)
