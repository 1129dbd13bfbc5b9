"""Which scope each instance keeps."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE lake.scopes (
            gateway text NOT NULL,
            instance text NOT NULL,
            scope text NOT NULL,
            first_event_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT scopes_pkey PRIMARY KEY (gateway, instance)
        )
    """)
    op.execute("COMMENT ON TABLE lake.scopes IS 'An instance keeps the scope of its first stored event'")
