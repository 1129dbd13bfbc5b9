"""Bytes kept beside the events, and which event has which."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE lake.blobs (
            sha256 text NOT NULL,
            bytes bigint NOT NULL,
            mime text,
            stored_at timestamptz NOT NULL DEFAULT now(),
            asked_at timestamptz NOT NULL DEFAULT now(),
            condemned_at timestamptz,
            CONSTRAINT blobs_pkey PRIMARY KEY (sha256)
        )
    """)
    op.execute(
        "COMMENT ON TABLE lake.blobs IS 'A row a blob in the blob store; condemned ones are being removed'"
    )
    op.execute("""
        CREATE TABLE lake.blob_refs (
            event_id uuid NOT NULL,
            sha256 text NOT NULL,
            lost text,
            CONSTRAINT blob_refs_pkey PRIMARY KEY (event_id, sha256)
        )
    """)
    op.execute("""
        COMMENT ON TABLE lake.blob_refs IS
        'Which event has which blob; lost says why its collector could not deliver it'
    """)
    op.execute("CREATE INDEX blob_refs_sha256_idx ON lake.blob_refs (sha256)")
