"""Keeps what the collectors counted per channel, and tells where their channels diverge."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import asyncpg
import msgspec

from contracts.heartbeat import Heartbeat
from contracts.times import as_datetime, rfc3339
from ingest import coverage_statements as statements
from ingest.watch import Alert

DIVERGE: Final = "channels.diverge"
FORGOTTEN_ROWS_MAX: Final = 5_000
"""Old counts that one round forgets."""
DIVERGE_HOURS: Final = 24
"""How far the watch looks back, so how long a divergence that is over is still told."""
BOTH_MIN: Final = 20
"""Facts that both channels brought: below it nobody knows whether a kind comes by both."""
ALONE_MIN: Final = 10
ALONE_SHARE: Final = 0.05
"""Facts that only one channel brought, as a number and as a share: above both the channels diverge."""
DIVERGING_MAX: Final = 10_000

_encode: Final = msgspec.json.Encoder().encode


async def keep(connection: asyncpg.Connection[Any], beat: Heartbeat) -> None:
    """Stores the counts of a heartbeat, in the caller's transaction; the same or older ones change nothing.

    A count of an hour that cannot be read is left out; one hour may be written in more than one way.
    """
    hours = ((as_datetime(told.hour), told) for told in beat.coverage if told.channels)
    readable = [msgspec.structs.replace(told, hour=rfc3339(at)) for at, told in hours if at is not None]
    if readable:
        merged = {(t.gateway, t.instance, t.kind, t.hour, t.channels): t for t in readable}
        await connection.execute(
            statements.KEEP_COVERAGE, beat.name, beat.epoch, _encode(list(merged.values()))
        )


async def forget(connection: asyncpg.Connection[Any], *, days: int) -> None:
    """Deletes counts older than ``days``, a bounded number."""
    await connection.execute(statements.FORGET_COVERAGE, days, FORGOTTEN_ROWS_MAX)


async def diverging(connection: asyncpg.Connection[Any]) -> list[Alert]:
    """One alert for each collector's instance whose channels did not bring the same in the last day.

    It tells the kind that differs most, and how many others differ too.
    """
    rows = await connection.fetch(
        statements.DIVERGING, DIVERGE_HOURS, BOTH_MIN, ALONE_MIN, ALONE_SHARE, DIVERGING_MAX
    )
    by_instance: defaultdict[str, list[asyncpg.Record]] = defaultdict(list)
    for row in rows:
        by_instance[f"{row['collector']}/{row['gateway']}/{row['instance']}"].append(row)
    return [
        Alert(
            name=DIVERGE,
            subject=subject,
            detail={name: kinds[0][name] for name in ("kind", "both", "only_webhook", "only_rabbitmq")}
            | ({"more_kinds": len(kinds) - 1} if len(kinds) > 1 else {}),
        )
        for subject, kinds in by_instance.items()
    ]
