"""What the first rules keep: states of instances, people's two addresses, chats."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE lake.instance_states (
            gateway text NOT NULL,
            instance text NOT NULL,
            scope text,
            state text NOT NULL,
            is_open boolean NOT NULL,
            reason integer,
            since timestamptz NOT NULL,
            told_at timestamptz NOT NULL,
            received_at timestamptz NOT NULL,
            event_id uuid NOT NULL,
            CONSTRAINT instance_states_pkey PRIMARY KEY (gateway, instance)
        )
    """)
    op.execute(
        "COMMENT ON TABLE lake.instance_states IS 'Whether each instance is connected, and since when'"
    )
    op.execute("""
        CREATE TABLE lake.lid_pairs (
            scope text NOT NULL,
            lid text NOT NULL,
            phone text NOT NULL,
            since timestamptz NOT NULL,
            last_at timestamptz NOT NULL,
            CONSTRAINT lid_pairs_pkey PRIMARY KEY (scope, lid)
        )
    """)
    op.execute("CREATE INDEX lid_pairs_phone_idx ON lake.lid_pairs (scope, phone)")
    op.execute(
        "COMMENT ON TABLE lake.lid_pairs IS 'Which LID is which phone, as the events of a scope named both'"
    )
    op.execute("""
        CREATE TABLE lake.chats (
            scope text NOT NULL,
            chat_jid text NOT NULL,
            chat_kind text NOT NULL,
            name text,
            named_at timestamptz,
            push_name text,
            push_named_at timestamptz,
            first_message_at timestamptz,
            last_message_at timestamptz,
            last_message_event_id uuid,
            last_message_from_me boolean,
            deleted_at timestamptz,
            CONSTRAINT chats_pkey PRIMARY KEY (scope, chat_jid)
        ) WITH (fillfactor = 70)
    """)
    op.execute("COMMENT ON TABLE lake.chats IS 'The chats of each scope: name, first and last message'")
