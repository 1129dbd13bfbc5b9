"""Enqueues records inside a transaction of the caller: they are there if and only if it commits (law 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias, TypeVar

import asyncpg

from outbox.postgres import statements as sql
from outbox.postgres.config import BODY_BYTES_MAX, PRIORITY_MAX, RECORDS_PER_STATEMENT_MAX
from outbox.record import PutOutcome

T = TypeVar("T")

Connection: TypeAlias = "asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any]"


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRecord:
    """A record to enqueue. Raises ValueError for what no queue takes."""

    id: str
    """One of its queue: a second record with it is a duplicate."""
    body: bytes
    label: str = ""
    """Opaque to the engine; shown in lists and logs, so never a secret or a text of a person."""
    priority: int = 0
    """0 goes first, 9 last."""
    due_at: datetime | None = None
    """Not before this moment; None: at once."""

    def __post_init__(self) -> None:
        if not 0 <= self.priority <= PRIORITY_MAX:
            raise ValueError(f"a priority is 0 to {PRIORITY_MAX}, not {self.priority}")
        if len(self.body) > BODY_BYTES_MAX:
            raise ValueError(f"a body of {len(self.body)} bytes is above {BODY_BYTES_MAX}")
        if not self.id or "\0" in self.id:
            raise ValueError("an id is a text of at least one character, none of them NUL")
        if self.due_at is not None and self.due_at.tzinfo is None:
            raise ValueError("due_at needs a time zone")


class InTransaction(Protocol):
    """What an enqueue needs of the caller's transaction: a connection, or what a rule is handed."""

    async def fetch(self, statement: str, /, *arguments: Any) -> Sequence[Mapping[str, Any]]:
        """Run one statement and return its rows."""
        ...


async def enqueue(transaction: InTransaction, queue: str, records: Sequence[DueRecord]) -> list[PutOutcome]:
    """Put records into a queue, in order, as part of ``transaction``.

    STORED, or DUPLICATE when the id waits, died, was delivered or came earlier in this call: then nothing
    changes. Another transaction that holds one of the ids is waited for. What the driver raises is raised:
    the transaction is the caller's. Works without prepared statements, hence behind a transaction pooler.
    """
    outcomes: list[PutOutcome] = []
    for start in range(0, len(records), RECORDS_PER_STATEMENT_MAX):
        outcomes += await _enqueue_slice(
            transaction, queue, records[start : start + RECORDS_PER_STATEMENT_MAX]
        )
    return outcomes


async def _enqueue_slice(
    transaction: InTransaction, queue: str, records: Sequence[DueRecord]
) -> list[PutOutcome]:
    firsts: dict[str, DueRecord] = {}
    for record in records:
        firsts.setdefault(record.id, record)
    taken = list(firsts.values())
    rows = await transaction.fetch(
        sql.ENQUEUE,
        queue,
        list(firsts),
        [record.body for record in taken],
        _column([readable(record.label) for record in taken], ""),
        _column([record.priority for record in taken], 0),
        _column([record.due_at for record in taken], None),
    )
    if len(rows) == len(records):
        return [PutOutcome.STORED] * len(records)
    stored = {row["id"] for row in rows}
    return [
        PutOutcome.STORED if record.id in stored and firsts[record.id] is record else PutOutcome.DUPLICATE
        for record in records
    ]


def _column(values: list[T], default: T) -> list[T] | None:
    """A column of nothing but the default travels as one NULL, which unnest fills up for less."""
    return None if values.count(default) == len(values) else values


def readable(text: str) -> str:
    """A text for people as Postgres can hold it: without NUL and lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
