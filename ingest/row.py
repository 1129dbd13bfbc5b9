"""What the doors hand to the writer, and what the writer says became of it."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

from msgspec import Raw

from contracts.blobs import BlobRef


class Row(NamedTuple):
    """One event, in the order of the insert's parameters. JSON members hold text that jsonb takes."""

    event_id: str
    """Lower-case, hyphenated."""
    digest: bytes | None
    type: str
    chat_jid: str | None
    payload: bytes | Raw
    shard: int
    gateway: str | None
    instance: str | None
    scope: str | None
    channel: str | None
    kind: str | None
    occurred_at: datetime | None
    occurred_from: str | None
    captured_at: datetime | None
    flags: tuple[str, ...] | None
    reader_error: str | None
    envelope: bytes | Raw | None
    sanitized: tuple[str, ...] | None
    redacted: tuple[str, ...] | None
    collector: str | None
    blobs: tuple[BlobRef, ...] | None = None
    """No parameter of the insert: they go to a table of their own in the same transaction."""


class Committed(enum.Enum):
    """What a commit made of a row."""

    STORED = "stored"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The row itself cannot be stored; ``detail`` names the reason without the row's content."""

    detail: str


Fate: TypeAlias = Committed | Refusal

CommitBatch: TypeAlias = Callable[[Sequence[Row]], Awaitable[list[Committed]]]
"""Commits rows in one transaction and returns, in order, what became of each.

Raises RowRefusedError (nothing was committed; one row or more cannot be stored) or UnavailableError (nothing
was committed, or it is not known: a resend will tell).
"""


class RowRefusedError(Exception):
    """Postgres refuses at least one row of the batch; nothing of it was committed."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class UnavailableError(Exception):
    """Nothing can be promised now: the sender shall send again."""
