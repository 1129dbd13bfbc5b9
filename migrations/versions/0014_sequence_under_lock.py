"""Read the sequence under its buffer's lock: a plain SELECT may see the number that is only logged ahead."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.execute("""
        CREATE OR REPLACE FUNCTION lake.reserve_seq() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(
                (24225::bigint << 48) | coalesce(pg_sequence_last_value('lake.log_seq'::regclass), 0));
            RETURN NULL;
        END
        $$
    """)
    op.execute("""
        CREATE OR REPLACE FUNCTION lake.horizon() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
        DECLARE
            given bigint;
            reserved bigint;
        BEGIN
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'lake.horizon() needs READ COMMITTED: an older snapshot would skip rows'
                    USING ERRCODE = 'invalid_transaction_state';
            END IF;
            given := coalesce(pg_sequence_last_value('lake.log_seq'::regclass), 0);
            SELECT min(((classid::bigint & 65535) << 32) | objid::bigint) INTO reserved
              FROM pg_locks
             WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 16 = 24225
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
            RETURN least(given, reserved);
        END
        $$
    """)
