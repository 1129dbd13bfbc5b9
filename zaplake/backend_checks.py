"""What doctor tries at the backend: it answers, it can commit, its secret and its clock are ours."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import httpx

from collector.heartbeat import skew_s
from contracts.envelope import EVENT_ID_HEADER, EVENT_PATH, SIGNATURE_HEADER
from contracts.signing import sign
from zaplake.finding import Finding

REQUEST_S_MAX: Final = 5.0
PROBE_ID: Final = "00000000-0000-5000-8000-000000000000"
PROBE_BODY: Final = b"{}"
"""Signed, and refused for its shape before anything is stored."""
SKEW_S_MAX: Final = 30.0


async def answers(url: str) -> Finding:
    """Whether a backend is there at all."""
    answer = await _get(f"{url}/healthz")
    if isinstance(answer, str):
        return Finding(
            what=f"the backend {url} does not answer: {answer}",
            next_step="run: zaplake up (or zaplake serve), or set ZAPLAKE_COLLECTOR_BACKEND_URL",
        )
    if answer.status_code != 200 or answer.content != b'{"status":"ok"}':
        return Finding(
            what=f"another program answers at {url} ({answer.status_code})",
            next_step="end it, or move the backend: --http-port N and ZAPLAKE_COLLECTOR_BACKEND_URL",
        )
    return Finding(what=f"backend {url}: answers")


async def can_commit(url: str) -> Finding:
    """Whether its Postgres is there and has the schema."""
    answer = await _get(f"{url}/readyz")
    if isinstance(answer, str) or answer.status_code != 200:
        return Finding(
            what="the backend cannot commit: its Postgres is away or has no schema (events wait on disk)",
            next_step="start Postgres again, or run there: zaplake db upgrade; the backend heals by itself",
        )
    return Finding(what="backend: can commit")


async def has_our_clock(url: str) -> Finding:
    """Whether its Date is our time."""
    before = datetime.now(UTC)
    answer = await _get(f"{url}/healthz")
    after = datetime.now(UTC)
    date = None if isinstance(answer, str) else answer.headers.get("date")
    ahead_s = skew_s(date, before, after)
    if ahead_s is None:
        return Finding(what="the backend's answer has no date: its clock was not compared")
    if abs(ahead_s) > SKEW_S_MAX:
        where = "ahead of" if ahead_s > 0 else "behind"
        return Finding(
            what=f"this machine's clock is {abs(ahead_s):.0f} s {where} the backend's",
            next_step="set both by NTP: timedatectl set-ntp true; till then times are wrong",
        )
    return Finding(what="backend: its clock and ours agree")


async def takes_our_secret(url: str, secret: bytes) -> Finding:
    """Whether a signed request passes; nothing is stored."""
    headers = {
        "Content-Type": "application/json",
        EVENT_ID_HEADER: PROBE_ID,
        SIGNATURE_HEADER: sign(secret, PROBE_ID, PROBE_BODY),
    }
    try:
        async with httpx.AsyncClient(timeout=REQUEST_S_MAX, trust_env=False) as client:
            answer = await client.post(f"{url}{EVENT_PATH}", content=PROBE_BODY, headers=headers)
    except Exception as error:  # as in _get
        return Finding(
            what=f"a signed request failed: {type(error).__name__}",
            next_step="try again; see the backend's log",
        )
    if answer.status_code == 401:
        return Finding(
            what="the backend refuses our signing secret (401): shipping halts",
            next_step="set the same ZAPLAKE_SIGNING_SECRETS here and at the backend, then restart both",
        )
    if answer.status_code != 422:
        return Finding(what=f"a signed request got {answer.status_code}", next_step="see the backend's log")
    return Finding(what="the backend accepts our signing secret")


async def _get(url: str) -> httpx.Response | str:
    try:
        async with httpx.AsyncClient(timeout=REQUEST_S_MAX, trust_env=False) as client:
            return await client.get(url)
    except Exception as error:  # whatever the other side or its address makes the libraries raise
        return str(error) or type(error).__name__
