"""What an operator does about the collectors that a lake has heard of."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ingest import statements
from zaplake.query import lake
from zaplake.trouble import Trouble, UsageTrouble

NAMED_MAX: Final = 20


async def retire(dsn: str, name: str, *, silent_after_s: float) -> datetime:
    """Forget a collector that is gone; returns when it was last heard of. Raises Trouble for a living one."""
    async with lake(dsn) as connection:
        last_seen_at: datetime | None = await connection.fetchval(
            statements.RETIRE_COLLECTOR, name, silent_after_s
        )
        names = [row["name"] for row in await connection.fetch(statements.COLLECTOR_NAMES, NAMED_MAX)]
    if last_seen_at is not None:
        return last_seen_at
    if name not in names:
        raise UsageTrouble("there is no such collector", f"heard of last: {', '.join(names) or 'none'}")
    raise Trouble(
        f"{name} was heard of in the last {silent_after_s:.0f} s",
        "stop it first: its next heartbeat brings it back",
    )
