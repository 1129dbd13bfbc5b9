"""Tokens of gateways that post to the backend without a collector."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE lake.gateway_tokens (
            id text NOT NULL,
            hash bytea NOT NULL,
            gateway text NOT NULL,
            family text NOT NULL,
            instances text[] NOT NULL DEFAULT '{}'::text[],
            created_at timestamptz NOT NULL DEFAULT now(),
            last_used_at timestamptz,
            revoked_at timestamptz,
            CONSTRAINT gateway_tokens_pkey PRIMARY KEY (id),
            CONSTRAINT gateway_tokens_hash_check CHECK (octet_length(hash) = 32),
            CONSTRAINT gateway_tokens_gateway_check CHECK (gateway <> '' AND strpos(gateway, '/') = 0)
        )
    """)
    op.execute("""
        COMMENT ON TABLE lake.gateway_tokens IS
        'Who may post at the direct door: the SHA-256 of each token, never the token'
    """)
