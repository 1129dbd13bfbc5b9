"""The last heartbeat of each collector."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE lake.collectors (
            name text NOT NULL,
            boot text NOT NULL,
            beat bigint NOT NULL,
            first_seen_at timestamptz NOT NULL DEFAULT now(),
            last_seen_at timestamptz NOT NULL DEFAULT now(),
            report jsonb NOT NULL,
            CONSTRAINT collectors_pkey PRIMARY KEY (name)
        )
    """)
    op.execute("COMMENT ON TABLE lake.collectors IS 'The last heartbeat of each collector'")
