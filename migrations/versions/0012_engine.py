"""The engine's own schema: what waits to be sent, under leases; what was delivered is an id only."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.execute("CREATE SCHEMA engine")
    op.execute("""
        CREATE FUNCTION engine.now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
        RETURN clock_timestamp()
    """)
    op.execute("CREATE SEQUENCE engine.rowid_seq AS bigint")
    op.execute("CREATE SEQUENCE engine.lease_seq AS bigint")
    op.execute("""
        CREATE TABLE engine.ids (
            queue text COLLATE "C" NOT NULL,
            id text COLLATE "C" NOT NULL,
            rowid bigint NOT NULL,
            created_at timestamptz NOT NULL,
            CONSTRAINT ids_pkey PRIMARY KEY (queue, id)
        )
    """)
    op.execute("""
        COMMENT ON TABLE engine.ids IS
        'The authority on duplicates: every id that waits, died or was delivered, until it is forgotten'
    """)
    op.execute("CREATE INDEX ids_created_idx ON engine.ids (queue, created_at)")
    _records()
    _dead()


def _records() -> None:
    op.execute("""
        CREATE TABLE engine.records (
            rowid bigint NOT NULL,
            queue text COLLATE "C" NOT NULL,
            id text COLLATE "C" NOT NULL,
            state text NOT NULL,
            priority smallint NOT NULL,
            due_at timestamptz NOT NULL,
            attempts integer NOT NULL DEFAULT 0,
            lapses integer NOT NULL DEFAULT 0,
            lease bigint,
            lease_until timestamptz,
            status integer,
            waits_because text NOT NULL DEFAULT '',
            created_at timestamptz NOT NULL,
            label text NOT NULL,
            body bytea NOT NULL,
            CONSTRAINT records_pkey PRIMARY KEY (rowid),
            CONSTRAINT records_state_check CHECK (state IN ('waiting', 'claimed', 'unknown', 'asked')),
            CONSTRAINT records_lease_check CHECK ((state IN ('claimed', 'asked')) = (lease IS NOT NULL)),
            CONSTRAINT records_lease_until_check CHECK ((lease IS NULL) = (lease_until IS NULL)),
            CONSTRAINT records_priority_check CHECK (priority BETWEEN 0 AND 9)
        )
    """)
    op.execute("""
        COMMENT ON TABLE engine.records IS
        'What waits or is being worked on, a row a record; what was delivered is gone from here'
    """)
    op.execute("""
        CREATE INDEX records_waiting_idx ON engine.records (queue, priority, due_at, rowid)
        WHERE state = 'waiting'
    """)
    op.execute("""
        CREATE INDEX records_unknown_idx ON engine.records (queue, due_at, rowid) WHERE state = 'unknown'
    """)
    op.execute("""
        CREATE INDEX records_leased_idx ON engine.records (queue) WHERE state IN ('claimed', 'asked')
    """)
    # Why each of these: outbox.postgres.tables.
    op.execute("""
        ALTER TABLE engine.records SET (
            fillfactor = 80,
            autovacuum_vacuum_scale_factor = 0.01,
            autovacuum_vacuum_threshold = 1000,
            autovacuum_vacuum_cost_delay = 0)
    """)


def _dead() -> None:
    op.execute("""
        CREATE TABLE engine.dead (
            rowid bigint GENERATED ALWAYS AS IDENTITY,
            queue text COLLATE "C" NOT NULL,
            id text COLLATE "C" NOT NULL,
            priority smallint NOT NULL,
            attempts integer NOT NULL,
            status integer,
            reason text NOT NULL,
            created_at timestamptz NOT NULL,
            died_at timestamptz NOT NULL,
            label text NOT NULL,
            body bytea NOT NULL,
            CONSTRAINT dead_pkey PRIMARY KEY (rowid)
        )
    """)
    op.execute("""
        COMMENT ON TABLE engine.dead IS
        'Records that were given up, with their bodies; rowid is the order of death'
    """)
    op.execute("CREATE UNIQUE INDEX dead_id_idx ON engine.dead (queue, id)")
    op.execute("CREATE INDEX dead_queue_idx ON engine.dead (queue, rowid)")
