"""What the first rules add to the lake's metadata."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
)

_TIME: Final = DateTime(timezone=True)


def add_rules(metadata: MetaData) -> None:
    """States of instances, pairs of addresses, chats."""
    Table(
        "instance_states",
        metadata,
        Column("gateway", Text, nullable=False),
        Column("instance", Text, nullable=False),
        Column("scope", Text),
        Column("state", Text, nullable=False),
        Column("is_open", Boolean, nullable=False),
        Column("reason", Integer),
        Column("since", _TIME, nullable=False),
        Column("told_at", _TIME, nullable=False),
        Column("received_at", _TIME, nullable=False),
        Column("event_id", Uuid, nullable=False),
        PrimaryKeyConstraint("gateway", "instance", name="instance_states_pkey"),
        comment="Whether each instance is connected, and since when",
    )
    Table(
        "lid_pairs",
        metadata,
        Column("scope", Text, nullable=False),
        Column("lid", Text, nullable=False),
        Column("phone", Text, nullable=False),
        Column("since", _TIME, nullable=False),
        Column("last_at", _TIME, nullable=False),
        PrimaryKeyConstraint("scope", "lid", name="lid_pairs_pkey"),
        Index("lid_pairs_phone_idx", "scope", "phone"),
        comment="Which LID is which phone, as the events of a scope named both",
    )
    Table(
        "chats",
        metadata,
        Column("scope", Text, nullable=False),
        Column("chat_jid", Text, nullable=False),
        Column("chat_kind", Text, nullable=False),
        Column("name", Text),
        Column("named_at", _TIME),
        Column("push_name", Text),
        Column("push_named_at", _TIME),
        Column("first_message_at", _TIME),
        Column("last_message_at", _TIME),
        Column("last_message_event_id", Uuid),
        Column("last_message_from_me", Boolean),
        Column("deleted_at", _TIME),
        PrimaryKeyConstraint("scope", "chat_jid", name="chats_pkey"),
        postgresql_with={"fillfactor": 70},  # each batch updates its chats: in place where there is room
        comment="The chats of each scope: name, first and last message",
    )
