"""What a reader of the log needs: which seq is complete, and a shard's rows in order."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute("CREATE INDEX whatsapp_event_logs_shard_seq_idx ON lake.whatsapp_event_logs (shard, seq)")
    op.execute("""
        CREATE FUNCTION lake.reserve_seq() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(
                (24225::bigint << 48) | (CASE WHEN is_called THEN last_value ELSE last_value - 1 END))
               FROM lake.log_seq;
            RETURN NULL;
        END
        $$
    """)
    op.execute("""
        COMMENT ON FUNCTION lake.reserve_seq() IS
        'Before the first nextval of a transaction: publishes the seq above which its rows will lie'
    """)
    op.execute("""
        CREATE FUNCTION lake.horizon() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
        DECLARE
            given bigint;
            reserved bigint;
        BEGIN
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'lake.horizon() needs READ COMMITTED: an older snapshot would skip rows'
                    USING ERRCODE = 'invalid_transaction_state';
            END IF;
            SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END INTO given FROM lake.log_seq;
            SELECT min(((classid::bigint & 65535) << 32) | objid::bigint) INTO reserved
              FROM pg_locks
             WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 16 = 24225
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
            RETURN least(given, reserved);
        END
        $$
    """)
    op.execute("""
        COMMENT ON FUNCTION lake.horizon() IS
        'Up to this seq nothing new can appear; rows are read in a later statement than this'
    """)
    op.execute("""
        CREATE TRIGGER reserve_seq BEFORE INSERT ON lake.whatsapp_event_logs
        FOR EACH STATEMENT EXECUTE FUNCTION lake.reserve_seq()
    """)
    op.execute("""
        DO $$
        DECLARE
            part regclass;
        BEGIN
            FOR part IN SELECT inhrelid FROM pg_inherits
                         WHERE inhparent = 'lake.whatsapp_event_logs'::regclass
            LOOP
                EXECUTE format('CREATE TRIGGER reserve_seq BEFORE INSERT ON %s
                                FOR EACH STATEMENT EXECUTE FUNCTION lake.reserve_seq()', part);
            END LOOP;
        END
        $$
    """)
