"""When to try again: a pure rule of time, attempts, chance and what the other side asked for."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

DELAY_S_FIRST: Final = 1.0
DELAY_S_MAX: Final = 300.0
"""No delay is longer, whatever the other side asks for."""
JITTER_SHARE: Final = 0.2
"""A delay is spread over ±20 %, so that many do not come back in the same moment."""

_DOUBLINGS_MAX: Final = 16
_SECONDS: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{0,9})?")


def next_attempt_at(
    *, now: datetime, attempts: int, jitter: float, retry_after_s: float | None = None
) -> datetime:
    """When to try again after ``attempts`` failed tries (1 or more; there is no last one).

    Doubles from one second up to the cap; ``jitter`` in [0, 1) spreads it by ±20 %, never above the cap.
    ``retry_after_s`` is a lower bound, itself clamped to the cap.
    """
    doubled = DELAY_S_FIRST * 2.0 ** min(max(attempts - 1, 0), _DOUBLINGS_MAX)
    spread = 1 - JITTER_SHARE + 2 * JITTER_SHARE * jitter
    delay_s = min(doubled, DELAY_S_MAX / (1 + JITTER_SHARE)) * spread
    if retry_after_s is not None:
        asked_s = min(max(retry_after_s, 0.0), DELAY_S_MAX)
        delay_s = max(delay_s, min(asked_s * (1 + JITTER_SHARE * jitter), DELAY_S_MAX))
    return now + timedelta(seconds=delay_s)


def parse_retry_after(value: str | None, *, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for, a number or an HTTP date; None for anything else.

    Clamped to [0, DELAY_S_MAX]. Source: RFC 9110 §10.2.3.
    """
    if value is None:
        return None
    stripped = value.strip()
    if _SECONDS.fullmatch(stripped):
        seconds = float(stripped)
    else:
        try:
            at = parsedate_to_datetime(stripped)
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
        seconds = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return min(max(seconds, 0.0), DELAY_S_MAX) if math.isfinite(seconds) else None
