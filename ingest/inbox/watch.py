"""Which alerts of the inbox stand now; the backend's watch asks."""

from __future__ import annotations

from typing import Any

import asyncpg

from ingest.config import IngestConfig
from ingest.inbox.statements import STALLED, TROUBLE
from ingest.watch import Alert


async def inbox_alerts(connection: asyncpg.Connection[Any], config: IngestConfig) -> list[Alert]:
    """A horizon that stands still, consumers that are paused or behind, dead events."""
    alerts = []
    age_s = await connection.fetchval(STALLED)
    if age_s is not None and age_s > config.inbox_stalled_after_s:
        alerts.append(Alert(name="inbox.stalled", subject="lake", detail={"open_s": round(age_s)}))
    for row in await connection.fetch(TROUBLE):
        name = row["name"]
        if row["is_paused"]:
            alerts.append(Alert(name="inbox.paused", subject=name, detail={"reason": row["reason"]}))
        elif row["oldest_s"] > config.inbox_behind_after_s:
            detail = {"oldest_s": round(row["oldest_s"])}
            alerts.append(Alert(name="inbox.behind", subject=name, detail=detail))
        if row["dead"]:
            alerts.append(Alert(name="inbox.dead", subject=name, detail={"events": row["dead"]}))
    return alerts
