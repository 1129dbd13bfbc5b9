"""Says every 30 seconds, signed, that the collector lives, and takes the account table from the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec
import structlog

from collector.alerts import Alerts
from collector.backend import Backend
from collector.capture import Capture
from collector.fitting import encode_fitting
from collector.meter import LossMeter
from collector.report import Reporter
from contracts.heartbeat import decode_answer, heartbeat_path
from contracts.identity import heartbeat_id
from outbox.store import StoreError

_JSON: Final = "application/json"
REFUSED: Final = "heartbeat.refused"
SKEWED: Final = "clock.skew"
DATE_S_MAX: Final = 2.0
"""How old the Date of an answer may be: it counts seconds, and servers renew it once a second."""
COME_AGAIN: Final = frozenset({408, 425, 429})
"""Outages as much as a 5xx is."""

_log = structlog.get_logger("collector.heartbeat")


async def beat(
    *,
    backend: Backend,
    reporter: Reporter,
    capture: Capture,
    meter: LossMeter,
    alerts: Alerts,
    skew_s_max: float,
    now: Callable[[], datetime],
) -> bool:
    """One heartbeat: a log line, a signed request, the table applied. True when the backend took it.

    A refusal is an alert here: a backend that never heard of a collector does not call it silent.
    """
    heartbeat = await reporter.heartbeat(await meter.to_tell())
    _log.info(
        "heartbeat",
        seq=heartbeat.seq,
        waiting=heartbeat.depth.waiting,
        dead=heartbeat.depth.dead,
        oldest_age_s=heartbeat.oldest_age_s,
        last_verdict=heartbeat.last_verdict,
        halted=heartbeat.halted,
    )
    asked_at = now()
    reply = await backend.post(
        heartbeat_path(heartbeat.name),
        event_id=heartbeat_id(heartbeat.name, heartbeat.boot, heartbeat.seq),
        body=encode_fitting(heartbeat),
        content_type=_JSON,
    )
    if isinstance(reply, str) or reply.status in COME_AGAIN or reply.status >= 500:
        _log.info("heartbeat.missed", answer=reply if isinstance(reply, str) else reply.status)
        return False
    if not 200 <= reply.status < 300:
        alerts.raise_(REFUSED, detail=str(reply.status))
        return False
    try:
        table = decode_answer(reply.body)
    except (msgspec.MsgspecError, RecursionError):
        alerts.raise_(REFUSED, detail="the answer is none of a backend")
        return False
    alerts.resolve(REFUSED)
    _watch_clock(skew_s(reply.date, asked_at, now()), skew_s_max, alerts)
    await capture.apply_accounts(
        {(entry.gateway, entry.instance): entry.scope for entry in table.scopes if entry.scope}
    )
    if table.keeps_coverage:
        await meter.were_kept()
    return True


async def keep_beating(
    every_s: float,
    *,
    backend: Backend,
    reporter: Reporter,
    capture: Capture,
    meter: LossMeter,
    alerts: Alerts,
    skew_s_max: float,
    now: Callable[[], datetime],
) -> None:
    """Runs for ever. A backend that is away costs nothing but the heartbeat."""
    while True:
        try:
            await beat(
                backend=backend,
                reporter=reporter,
                capture=capture,
                meter=meter,
                alerts=alerts,
                skew_s_max=skew_s_max,
                now=now,
            )
        except (StoreError, OSError) as error:
            _log.warning("heartbeat.failed", error=type(error).__name__)
        await asyncio.sleep(every_s)


def skew_s(date: str | None, asked_at: datetime, answered_at: datetime) -> float | None:
    """How far our clock is ahead of the one that wrote an answer's ``Date`` (below 0: behind it).

    0.0 as far as the time the answer took explains it; None without a date that can be read.
    """
    if date is None:
        return None
    try:
        theirs = parsedate_to_datetime(date)
        behind_s, ahead_s = (theirs - answered_at).total_seconds(), (asked_at - theirs).total_seconds()
    except (ValueError, TypeError, OverflowError):  # TypeError: a date without its zone
        return None
    return -behind_s if behind_s > 0 else max(0.0, ahead_s - DATE_S_MAX)


def _watch_clock(skew: float | None, skew_s_max: float, alerts: Alerts) -> None:
    if skew is None:
        return
    if abs(skew) <= skew_s_max:
        alerts.resolve(SKEWED)
        return
    where = "ahead of" if skew > 0 else "behind"
    alerts.raise_(SKEWED, detail=f"our clock is {abs(skew):.0f} s {where} the backend's")
