"""The engine's tables as SQLAlchemy metadata; the migrations make the same (a test compares the two)."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    DateTime,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    Table,
    Text,
    event,
    text,
)

from outbox.postgres.config import PRIORITY_MAX
from outbox.postgres.states import IN_ROWS, LEASED

SCHEMA: Final = "engine"

metadata = MetaData(schema=SCHEMA)

_TIME: Final = DateTime(timezone=True)
_NAME: Final = Text(collation="C")
"""By bytes: faster, and an index that no new version of the system's sorting rules can spoil."""
_ZERO: Final = text("0")
_EMPTY: Final = text("''")


def _listed(states: tuple[str, ...]) -> str:
    return ", ".join(f"'{state}'" for state in states)


@event.listens_for(metadata, "before_create")
def _make_clock(_target: MetaData, connection: Connection, **_options: object) -> None:
    connection.exec_driver_sql(
        f"CREATE FUNCTION {SCHEMA}.now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE "
        "RETURN clock_timestamp()"
    )


rowid_seq = Sequence("rowid_seq", schema=SCHEMA, metadata=metadata, data_type=BigInteger)
lease_seq = Sequence("lease_seq", schema=SCHEMA, metadata=metadata, data_type=BigInteger)

ids = Table(
    "ids",
    metadata,
    Column("queue", _NAME, nullable=False),
    Column("id", _NAME, nullable=False),
    Column("rowid", BigInteger, nullable=False),
    Column("created_at", _TIME, nullable=False),
    PrimaryKeyConstraint("queue", "id", name="ids_pkey"),
    Index("ids_created_idx", "queue", "created_at"),
    comment="The authority on duplicates: every id that waits, died or was delivered, until it is forgotten",
)

records = Table(
    "records",
    metadata,
    Column("rowid", BigInteger, autoincrement=False, nullable=False),
    Column("queue", _NAME, nullable=False),
    Column("id", _NAME, nullable=False),
    Column("state", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("due_at", _TIME, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=_ZERO),
    Column("lapses", Integer, nullable=False, server_default=_ZERO),
    Column("lease", BigInteger),
    Column("lease_until", _TIME),
    Column("status", Integer),
    Column("waits_because", Text, nullable=False, server_default=_EMPTY),
    Column("created_at", _TIME, nullable=False),
    Column("label", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("rowid", name="records_pkey"),
    CheckConstraint(f"state IN ({_listed(IN_ROWS)})", name="records_state_check"),
    CheckConstraint(f"(state IN ({_listed(LEASED)})) = (lease IS NOT NULL)", name="records_lease_check"),
    CheckConstraint("(lease IS NULL) = (lease_until IS NULL)", name="records_lease_until_check"),
    CheckConstraint(f"priority BETWEEN 0 AND {PRIORITY_MAX}", name="records_priority_check"),
    Index(
        "records_waiting_idx",
        "queue",
        "priority",
        "due_at",
        "rowid",
        postgresql_where=text("state = 'waiting'"),
    ),
    Index("records_unknown_idx", "queue", "due_at", "rowid", postgresql_where=text("state = 'unknown'")),
    Index("records_leased_idx", "queue", postgresql_where=text(f"state IN ({_listed(LEASED)})")),
    comment="What waits or is being worked on, a row a record; what was delivered is gone from here",
)


# fillfactor: a renewal changes no index, so it stays on its page when there is room. autovacuum: each record
# leaves two dead rows behind, so the table is cleaned after 1 % of it (and 1,000 rows), at full speed: it is
# small, and a claim reads past what is not cleaned.
@event.listens_for(records, "after_create")
def _tune(_target: Table, connection: Connection, **_options: object) -> None:
    connection.exec_driver_sql(
        f"ALTER TABLE {SCHEMA}.records SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, "
        "autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)"
    )


dead = Table(
    "dead",
    metadata,
    Column("rowid", BigInteger, Identity(always=True), nullable=False),
    Column("queue", _NAME, nullable=False),
    Column("id", _NAME, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("status", Integer),
    Column("reason", Text, nullable=False),
    Column("created_at", _TIME, nullable=False),
    Column("died_at", _TIME, nullable=False),
    Column("label", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("rowid", name="dead_pkey"),
    Index("dead_id_idx", "queue", "id", unique=True),
    Index("dead_queue_idx", "queue", "rowid"),
    comment="Records that were given up, with their bodies; rowid is the order of death",
)
