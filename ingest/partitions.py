"""Makes the log's months ahead of time, so that closed months can be detached and an insert never fails."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg

from ingest.statements import MAKE_MONTH, MONTH_BOUNDS, MONTHS_LOCK, MONTHS_SETTINGS, MOVE_EPOCH, NOW

MONTHS_AHEAD: Final = 3
"""How many months after the current one stand ready."""
MONTHS_MAX: Final = 240
"""How many months one call makes at most."""
LOCK_S_MAX: Final = 2
"""A month is not worth stopping ingest for longer; the next round tries again."""
IDLE_S_MAX: Final = 5
"""A maker that stands still between two statements loses its lock; nothing of its months is there then."""

_PAST: Final = "whatsapp_event_logs_past"
_FUTURE: Final = "whatsapp_event_logs_future"
_QUOTED: Final = re.compile(r"'([^']+)'")


class CatchAllMissingError(Exception):
    """The range behind the last month is gone (detached by hand): no month can be cut from it."""


async def make_ahead(connection: asyncpg.Connection[Any], *, now: datetime | None = None) -> list[str]:
    """Make the months from where the last one ends up to ``MONTHS_AHEAD`` after ``now``; returns their names.

    ``now`` is the database's clock unless given. Rows that already lie in the catch-all are moved.
    Raises asyncpg.LockNotAvailableError when the tables are busy, and CatchAllMissingError.
    """
    async with connection.transaction():
        await connection.execute(MONTHS_SETTINGS, f"{LOCK_S_MAX}s", f"{IDLE_S_MAX}s")
        await connection.execute(MONTHS_LOCK)
        if now is None:
            now = await connection.fetchval(NOW)
        bounds = {row["relname"]: row["bounds"] for row in await connection.fetch(MONTH_BOUNDS)}
        current = _month(now)
        if _FUTURE not in bounds:
            raise CatchAllMissingError(f"lake.{_FUTURE} is no partition of lake.whatsapp_event_logs")
        start = _edge(bounds[_FUTURE])
        if start != current and _PAST in bounds and _edge(bounds[_PAST]) == start:
            await connection.execute(MOVE_EPOCH.format(current=_literal(current)))
            start = current
        made: list[str] = []
        last = _later(current, MONTHS_AHEAD)
        while start <= last and len(made) < MONTHS_MAX:
            made.append(await _make_month(connection, start))
            start = _later(start, 1)
        return made


async def _make_month(connection: asyncpg.Connection[Any], start: datetime) -> str:
    name, end = f"whatsapp_event_logs_{start:%Y_%m}", _later(start, 1)
    await connection.execute(
        MAKE_MONTH.format(month=_identifier(name), start=_literal(start), end=_literal(end))
    )
    return name


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(at: datetime) -> str:
    return f"'{at.isoformat()}'"


def _month(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _later(month: datetime, count: int) -> datetime:
    years, index = divmod(month.month - 1 + count, 12)
    return month.replace(year=month.year + years, month=index + 1)


def _edge(bounds: str) -> datetime:
    """The one time that a catch-all's bounds name: where the months begin, or where they end."""
    found = _QUOTED.search(bounds)
    assert found is not None, bounds
    return _month(datetime.fromisoformat(found.group(1)))
