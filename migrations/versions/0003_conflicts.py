"""What a second copy with other content said."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE lake.conflicts (
            event_id uuid NOT NULL,
            digest bytea NOT NULL,
            payload jsonb NOT NULL,
            first_seen_at timestamptz NOT NULL DEFAULT now(),
            seen_count integer NOT NULL DEFAULT 1,
            CONSTRAINT conflicts_pkey PRIMARY KEY (event_id, digest),
            CONSTRAINT conflicts_event_id_fkey FOREIGN KEY (event_id) REFERENCES lake.event_ids (event_id)
        )
    """)
    op.execute("""
        COMMENT ON TABLE lake.conflicts IS 'The same id with other content: what the second copy said'
    """)
