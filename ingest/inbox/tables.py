"""What the inbox adds to the lake's metadata; the migrations make the same (a test compares the two)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import DDL, MetaData, Table, event

# The key's upper 16 bits keep it apart from every other advisory lock of this database. It is read before
# the lock is taken, and taken before the first nextval: what this transaction writes lies above it.
_RESERVE: Final = """
CREATE FUNCTION lake.reserve_seq() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(
                (24225::bigint << 48) | (CASE WHEN is_called THEN last_value ELSE last_value - 1 END))
               FROM lake.log_seq;
            RETURN NULL;
        END
        $$
"""

# last_value comes first: a writer that is not among the locks read after it takes only higher numbers.
_HORIZON: Final = """
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
"""
_COMMENTS: Final = (
    (
        "COMMENT ON FUNCTION lake.reserve_seq() IS "
        "'Before the first nextval of a transaction: publishes the seq above which its rows will lie'"
    ),
    (
        "COMMENT ON FUNCTION lake.horizon() IS "
        "'Up to this seq nothing new can appear; rows are read in a later statement than this'"
    ),
)


def add_order(metadata: MetaData, log: Table, partitions: Sequence[str]) -> None:
    """The functions and triggers that tell up to which seq the log is complete."""
    for statement in (_RESERVE, _HORIZON, *_COMMENTS):
        _run(metadata, "before_create", statement)
    for suffix in ("", *partitions):
        _run(
            log,
            "after_create",
            f"CREATE TRIGGER reserve_seq BEFORE INSERT ON lake.{log.name}{suffix} "
            "FOR EACH STATEMENT EXECUTE FUNCTION lake.reserve_seq()",
        )


def _run(target: MetaData | Table, when: str, statement: str) -> None:
    event.listen(
        target,
        when,
        DDL(statement.replace("%", "%%")),  # type: ignore[no-untyped-call]  # SQLAlchemy 2.1 does not annotate it
    )
