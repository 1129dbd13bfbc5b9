"""The authority on duplicates."""

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.execute("""
        CREATE TABLE lake.event_ids (
            event_id uuid NOT NULL,
            received_at timestamptz NOT NULL DEFAULT now(),
            digest bytea,
            CONSTRAINT event_ids_pkey PRIMARY KEY (event_id)
        )
    """)
    op.execute("""
        COMMENT ON TABLE lake.event_ids IS
        'The authority on duplicates: an id stands here once, also after its event was erased'
    """)
