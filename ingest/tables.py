"""The lake's tables as SQLAlchemy metadata; the migrations make the same (a test compares the two)."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
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
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from ingest.coverage_tables import add_coverage
from ingest.ddl import run_when
from ingest.inbox.tables import add_inbox, add_order
from ingest.rules.tables import add_rules

SCHEMA: Final = "lake"
LOG_EPOCH: Final = "2026-01-01 00:00:00+00"
"""Where the two catch-all partitions meet in a new database, before the first months are made."""

metadata = MetaData(schema=SCHEMA)

_TIME: Final = DateTime(timezone=True)
_OPTIONAL_JSON: Final = JSONB(none_as_null=True)
_NOW: Final = text("now()")

event_ids = Table(
    "event_ids",
    metadata,
    Column("event_id", Uuid, nullable=False),
    Column("received_at", _TIME, nullable=False, server_default=_NOW),
    Column("digest", LargeBinary),
    PrimaryKeyConstraint("event_id", name="event_ids_pkey"),
    comment="The authority on duplicates: an id stands here once, also after its event was erased",
)

log_seq = Sequence("log_seq", schema=SCHEMA, metadata=metadata, data_type=BigInteger, cache=1)

whatsapp_event_logs = Table(
    "whatsapp_event_logs",
    metadata,
    Column("id", Uuid, nullable=False, server_default=text("gen_random_uuid()")),
    Column("event_id", Uuid, nullable=False),
    Column("type", Text, nullable=False),
    Column("chat_jid", Text),
    Column("received_at", _TIME, nullable=False, server_default=_NOW),
    Column("payload", JSONB, nullable=False),
    Column("seq", BigInteger, nullable=False, server_default=log_seq.next_value()),
    Column("shard", SmallInteger, nullable=False),
    Column("gateway", Text),
    Column("instance", Text),
    Column("scope", Text),
    Column("channel", Text),
    Column("kind", Text),
    Column("occurred_at", _TIME),
    Column("occurred_from", Text),
    Column("captured_at", _TIME),
    Column("digest", LargeBinary),
    Column("flags", ARRAY(Text)),
    Column("reader_error", Text),
    Column("envelope", _OPTIONAL_JSON),
    Column("sanitized", ARRAY(Text)),
    Column("redacted", ARRAY(Text)),
    Column("collector", Text),
    CheckConstraint("char_length(type) BETWEEN 1 AND 100", name="whatsapp_event_logs_type_check"),
    Index("whatsapp_event_logs_received_at_idx", "received_at", postgresql_using="brin"),
    Index("whatsapp_event_logs_shard_seq_idx", "shard", "seq"),
    postgresql_partition_by="RANGE (received_at)",
    comment="One committed event a row, as the gateway sent it",
)

for _name, _bounds in (
    ("whatsapp_event_logs_past", f"FROM (MINVALUE) TO ('{LOG_EPOCH}')"),
    ("whatsapp_event_logs_future", f"FROM ('{LOG_EPOCH}') TO (MAXVALUE)"),
):
    run_when(
        whatsapp_event_logs,
        "after_create",
        f"CREATE TABLE {SCHEMA}.{_name} PARTITION OF {SCHEMA}.whatsapp_event_logs FOR VALUES {_bounds}",
    )

add_order(metadata, whatsapp_event_logs, ("_past", "_future"))
add_inbox(metadata)
add_rules(metadata)
add_coverage(metadata)

conflicts = Table(
    "conflicts",
    metadata,
    Column("event_id", Uuid, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("payload", JSONB, nullable=False),
    Column("first_seen_at", _TIME, nullable=False, server_default=_NOW),
    Column("seen_count", Integer, nullable=False, server_default=text("1")),
    PrimaryKeyConstraint("event_id", "digest", name="conflicts_pkey"),
    ForeignKeyConstraint(["event_id"], ["lake.event_ids.event_id"], name="conflicts_event_id_fkey"),
    comment="The same id with other content: what the second copy said",
)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("mime", Text),
    Column("stored_at", _TIME, nullable=False, server_default=_NOW),
    Column("asked_at", _TIME, nullable=False, server_default=_NOW),
    Column("condemned_at", _TIME),
    PrimaryKeyConstraint("sha256", name="blobs_pkey"),
    comment="A row a blob in the blob store; condemned ones are being removed",
)

blob_refs = Table(
    "blob_refs",
    metadata,
    Column("event_id", Uuid, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("lost", Text),
    PrimaryKeyConstraint("event_id", "sha256", name="blob_refs_pkey"),
    Index("blob_refs_sha256_idx", "sha256"),
    comment="Which event has which blob; lost says why its collector could not deliver it",
)

collectors = Table(
    "collectors",
    metadata,
    Column("name", Text, nullable=False),
    Column("boot", Text, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("first_seen_at", _TIME, nullable=False, server_default=_NOW),
    Column("last_seen_at", _TIME, nullable=False, server_default=_NOW),
    Column("report", JSONB, nullable=False),
    PrimaryKeyConstraint("name", name="collectors_pkey"),
    comment="The last heartbeat of each collector",
)

scopes = Table(
    "scopes",
    metadata,
    Column("gateway", Text, nullable=False),
    Column("instance", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("first_event_at", _TIME, nullable=False, server_default=_NOW),
    PrimaryKeyConstraint("gateway", "instance", name="scopes_pkey"),
    comment="An instance keeps the scope of its first stored event",
)

alerts = Table(
    "alerts",
    metadata,
    Column("id", BigInteger, Identity(always=True), nullable=False),
    Column("name", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", JSONB, nullable=False),
    Column("raised_at", _TIME, nullable=False, server_default=_NOW),
    Column("repeated_at", _TIME, nullable=False, server_default=_NOW),
    Column("repeated_count", Integer, nullable=False, server_default=text("0")),
    Column("resolved_at", _TIME),
    PrimaryKeyConstraint("id", name="alerts_pkey"),
    Index("alerts_open_idx", "name", "subject", unique=True, postgresql_where=text("resolved_at IS NULL")),
    comment="One row from raised to resolved; at most one open row a name and subject",
)

gateway_tokens = Table(
    "gateway_tokens",
    metadata,
    Column("id", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("gateway", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("instances", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    Column("created_at", _TIME, nullable=False, server_default=_NOW),
    Column("last_used_at", _TIME),
    Column("revoked_at", _TIME),
    PrimaryKeyConstraint("id", name="gateway_tokens_pkey"),
    CheckConstraint("octet_length(hash) = 32", name="gateway_tokens_hash_check"),
    CheckConstraint("gateway <> '' AND strpos(gateway, '/') = 0", name="gateway_tokens_gateway_check"),
    comment="Who may post at the direct door: the SHA-256 of each token, never the token",
)
