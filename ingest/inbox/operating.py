"""What an operator asks and does about the inbox; every change is one transaction on the rows' own locks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

import asyncpg

from ingest.inbox import statements
from ingest.inbox.config import InboxConfig
from ingest.inbox.metrics import Lag
from ingest.inbox.runner import read_lag
from ingest.inbox.statements import begin

_Connection: TypeAlias = "asyncpg.Connection[Any]"
NO_LIMITS: Final = InboxConfig(dsn="")
"""An operator's verbs have the timeouts of the defaults."""


class UnknownConsumerError(Exception):
    """Nobody of that name reads the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus:
    """One consumer as it stands."""

    name: str
    paused_at: datetime | None
    paused_reason: str | None
    lag: Lag


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One parked event."""

    consumer: str
    seq: int
    event_id: UUID
    state: str
    attempts: int
    due_at: datetime | None
    failed_at: datetime
    last_error: str


async def statuses(connection: _Connection) -> list[ConsumerStatus]:
    """All consumers."""
    return [
        ConsumerStatus(
            name=row["name"],
            paused_at=row["paused_at"],
            paused_reason=row["paused_reason"],
            lag=await read_lag(connection, NO_LIMITS, row["name"]),
        )
        for row in await connection.fetch(statements.CONSUMERS)
    ]


async def failures(connection: _Connection, consumer: str | None, limit: int) -> list[Failure]:
    """Parked events, the dead ones first, at most ``limit``."""
    rows = await connection.fetch(statements.FAILURES, consumer, limit)
    return [Failure(**dict(row)) for row in rows]


async def revive(connection: _Connection, consumer: str, events: Sequence[UUID] | None) -> int:
    """Let dead events (of these ids, or all) be tried again from the first step on; returns how many."""
    await _known(connection, consumer)
    return len(await connection.fetch(statements.REVIVE, consumer, events))


async def replay(connection: _Connection, consumer: str, since: datetime) -> int | None:
    """Move the consumer back to the first event that was received at ``since`` or later.

    Returns its seq, None when there is no such event. Its effects happen again from there on.
    """
    await _known(connection, consumer)
    # Of a long log it takes its time. What commits meanwhile with a lower number, no cursor has passed.
    first: int | None = await connection.fetchval(statements.FIRST_SINCE, since)
    if first is not None:
        await connection.execute(begin(NO_LIMITS))
        await connection.fetch(statements.LOCK_CURSORS, consumer)
        await connection.fetch(statements.MOVE_BACK, consumer, first - 1)
        await connection.fetch(statements.FORGET_FAILURES, consumer, first)
        await connection.execute(statements.COMMIT)
    return first


async def pause(connection: _Connection, consumer: str, reason: str) -> bool:
    """Stop it in all processes; False when it stood already."""
    await _known(connection, consumer)
    return await connection.fetchval(statements.PAUSE, consumer, reason) is not None


async def resume(connection: _Connection, consumer: str, *, is_parking: bool) -> bool:
    """Let it go on; False when it was not paused. ``is_parking``: what is there now is parked, however much
    of it fails; the guard is back for what comes later.
    """
    await _known(connection, consumer)
    await connection.execute(begin(NO_LIMITS))
    horizon = await connection.fetchval(statements.HORIZON) if is_parking else 0
    is_resumed = await connection.fetchval(statements.RESUME, consumer, horizon) is not None
    await connection.execute(statements.COMMIT)
    return is_resumed


async def forget(connection: _Connection, consumer: str) -> bool:
    """Remove a paused consumer with its cursors and failures; False, and nothing done, when it is not paused.

    Run again under this name it would begin with the first event of the log; a process that still has it
    says so and runs it no more.
    """
    await _known(connection, consumer)
    await connection.execute(begin(NO_LIMITS))
    gone = await connection.fetchval(statements.FORGET, consumer)
    if gone is not None:
        for statement in (statements.FORGET_CURSORS, *statements.FORGET_REST):
            await connection.fetch(statement, consumer)
    await connection.execute(statements.COMMIT)
    return gone is not None


async def _known(connection: _Connection, consumer: str) -> None:
    names = [row["name"] for row in await connection.fetch(statements.CONSUMERS)]
    if consumer not in names:
        raise UnknownConsumerError(", ".join(names) or "none yet: run zaplake work")
