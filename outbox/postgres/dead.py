"""Dead letters of one queue on Postgres, off the hot path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from outbox.postgres import statements as sql
from outbox.postgres.config import RECORDS_PER_STATEMENT_MAX
from outbox.postgres.enqueue import Connection
from outbox.store import DeadRecord


def _letter(row: Any) -> DeadRecord:
    return DeadRecord(
        rowid=row["rowid"],
        id=row["id"],
        label=row["label"],
        status=row["status"],
        reason=row["reason"],
        attempts=row["attempts"],
        created_at=row["created_at"],
        died_at=row["died_at"],
        body_bytes=row["size"],
        body=row["body"],
    )


async def dead_list(connection: Connection, queue: str, *, after: int, limit: int) -> list[DeadRecord]:
    return [_letter(row) for row in await connection.fetch(sql.DEAD_LIST, queue, after, limit)]


async def dead_show(connection: Connection, queue: str, id_: str) -> list[DeadRecord]:
    return [_letter(row) for row in await connection.fetch(sql.DEAD_SHOW, queue, id_)]


async def dead_requeue(connection: Connection, queue: str, ids: Sequence[str] | None) -> int:
    return await _in_pages(connection, sql.DEAD_REQUEUE, queue, ids)


async def dead_drop(connection: Connection, queue: str, ids: Sequence[str] | None) -> int:
    return await _in_pages(connection, sql.DEAD_DROP, queue, ids)


async def _in_pages(connection: Connection, statement: str, queue: str, ids: Sequence[str] | None) -> int:
    """A bounded number of rows a statement, in the transaction of the caller."""
    done = 0
    for page in _slices(ids):
        while moved := count(await connection.execute(statement, queue, page, RECORDS_PER_STATEMENT_MAX)):
            done += moved
    return done


def _slices(ids: Sequence[str] | None) -> Iterator[list[str] | None]:
    if ids is None:
        yield None
        return
    for start in range(0, len(ids), RECORDS_PER_STATEMENT_MAX):
        yield list(ids[start : start + RECORDS_PER_STATEMENT_MAX])


def count(told: str) -> int:
    """The rows of a command's answer, such as ``UPDATE 3``."""
    return int(told.rpartition(" ")[2])
