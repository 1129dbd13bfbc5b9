"""Alerts from raised to resolved."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE lake.alerts (
            id bigint GENERATED ALWAYS AS IDENTITY,
            name text NOT NULL,
            subject text NOT NULL,
            detail jsonb NOT NULL,
            raised_at timestamptz NOT NULL DEFAULT now(),
            repeated_at timestamptz NOT NULL DEFAULT now(),
            repeated_count integer NOT NULL DEFAULT 0,
            resolved_at timestamptz,
            CONSTRAINT alerts_pkey PRIMARY KEY (id)
        )
    """)
    op.execute("""
        COMMENT ON TABLE lake.alerts IS
        'One row from raised to resolved; at most one open row a name and subject'
    """)
    op.execute("CREATE UNIQUE INDEX alerts_open_idx ON lake.alerts (name, subject) WHERE resolved_at IS NULL")
