"""Makes the log's months ahead of time, so that closed months can be detached and an insert never fails."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import asyncpg

from ingest.statements import NOW

MONTHS_AHEAD: Final = 3
"""How many months after the current one stand ready."""
MONTHS_MAX: Final = 240
"""How many months one call makes at most."""
LOCK_S_MAX: Final = 2
"""A month is not worth stopping ingest for longer; the next round tries again."""

_PARENT: Final = "lake.whatsapp_event_logs"
_PAST: Final = "lake.whatsapp_event_logs_past"
_FUTURE: Final = "lake.whatsapp_event_logs_future"

# One process at a time; it waits, so that all that start together find the months made.
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('lake.whatsapp_event_logs months'))"
# The bounds are read back from the catalogue: the tables are the only record of which months there are.
_BOUNDS: Final = """
SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) AS bounds
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'lake.whatsapp_event_logs'::regclass
"""
_QUOTED: Final = re.compile(r"'([^']+)'")


class CatchAllMissingError(Exception):
    """The range behind the last month is gone (detached by hand): no month can be cut from it."""


async def make_ahead(connection: asyncpg.Connection, *, now: datetime | None = None) -> list[str]:
    """Make the months from where the last one ends up to ``MONTHS_AHEAD`` after ``now``; returns their names.

    ``now`` is the database's clock unless given. Rows that already lie in the catch-all are moved.
    Raises asyncpg.LockNotAvailableError when the tables are busy, and CatchAllMissingError.
    """
    async with connection.transaction():
        await connection.execute(f"SET LOCAL timezone = 'UTC'; SET LOCAL lock_timeout = '{LOCK_S_MAX}s'")
        await connection.execute(_LOCK)
        if now is None:
            now = await connection.fetchval(NOW)
        bounds = {row["relname"]: row["bounds"] for row in await connection.fetch(_BOUNDS)}
        current = _month(now)
        if "whatsapp_event_logs_future" not in bounds:
            raise CatchAllMissingError(f"{_FUTURE} is no partition of {_PARENT}")
        start = _lower_bound(bounds["whatsapp_event_logs_future"])
        if len(bounds) == 2 and start != current:
            await _move_epoch(connection, current)
            start = current
        made: list[str] = []
        last = _later(current, MONTHS_AHEAD)
        while start <= last and len(made) < MONTHS_MAX:
            made.append(await _make_month(connection, start))
            start = _later(start, 1)
        return made


# The statements below hold names of this module and times of the catalogue, never a sender's text.
async def _move_epoch(connection: asyncpg.Connection, current: datetime) -> None:
    """In a new database the catch-alls meet at the current month."""
    await connection.execute(f"""
        LOCK TABLE {_PARENT} IN ACCESS EXCLUSIVE MODE;
        ALTER TABLE {_PARENT} DETACH PARTITION {_PAST};
        ALTER TABLE {_PARENT} DETACH PARTITION {_FUTURE};
        WITH moved AS (DELETE FROM {_FUTURE} WHERE received_at < '{current}' RETURNING *)
        INSERT INTO {_PAST} SELECT * FROM moved;
        WITH moved AS (DELETE FROM {_PAST} WHERE received_at >= '{current}' RETURNING *)
        INSERT INTO {_FUTURE} SELECT * FROM moved;
        ALTER TABLE {_PARENT} ATTACH PARTITION {_PAST} FOR VALUES FROM (MINVALUE) TO ('{current}');
        ALTER TABLE {_PARENT} ATTACH PARTITION {_FUTURE} FOR VALUES FROM ('{current}') TO (MAXVALUE);
    """)  # noqa: S608


async def _make_month(connection: asyncpg.Connection, start: datetime) -> str:
    name = f"whatsapp_event_logs_{start:%Y_%m}"
    end = _later(start, 1)
    await connection.execute(f"""
        LOCK TABLE {_PARENT} IN ACCESS EXCLUSIVE MODE;
        CREATE TABLE lake.{name} (LIKE {_PARENT} INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
        ALTER TABLE {_PARENT} DETACH PARTITION {_FUTURE};
        WITH moved AS (DELETE FROM {_FUTURE} WHERE received_at < '{end}' RETURNING *)
        INSERT INTO lake.{name} SELECT * FROM moved;
        ALTER TABLE {_PARENT} ATTACH PARTITION lake.{name} FOR VALUES FROM ('{start}') TO ('{end}');
        ALTER TABLE {_PARENT} ATTACH PARTITION {_FUTURE} FOR VALUES FROM ('{end}') TO (MAXVALUE);
    """)  # noqa: S608
    return name


def _month(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _later(month: datetime, count: int) -> datetime:
    years, index = divmod(month.month - 1 + count, 12)
    return month.replace(year=month.year + years, month=index + 1)


def _lower_bound(bounds: str) -> datetime:
    found = _QUOTED.search(bounds)
    assert found is not None, bounds
    return _month(datetime.fromisoformat(found.group(1)))
