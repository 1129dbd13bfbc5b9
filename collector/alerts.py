"""What an operator must hear of: said when it begins, slowly again while it lasts, and when it ends.

An alert is a structlog event (``alert.raised``, ``alert.repeated``, ``alert.resolved``) and a line of the
bounded ring in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias, TypedDict

import structlog

from collector.documents import read_document
from outbox.store import Store, StoreUnavailable

META_KEY: Final = "alerts"
SAVE_EVERY_S_MIN: Final = 0.5
QUIET: Final = timedelta(minutes=10)
"""What nothing can call resolved is resolved when it was not repeated for so long (a gateway's retries of one
event are at most 6 minutes apart)."""

REPEAT_S: Final = 6 * 3600.0
"""How long an alert lasts until it is said again."""

OnAlert: TypeAlias = Callable[[str, str, str, str], None]
"""Takes what, alert, subject and detail; must return at once and never raise."""

_log = structlog.get_logger("collector")


def nobody(_what: str, _alert: str, _subject: str, _detail: str) -> None:
    """An ``OnAlert`` for where nobody is told."""


class AlertLine(TypedDict):
    """One line of the ring."""

    at: str
    what: str
    alert: str
    subject: str
    detail: str


@dataclass(slots=True)
class _Active:
    raised_at: datetime
    last_at: datetime
    told_at: datetime
    fades: bool
    detail: str
    count: int = 1


class Alerts:
    """The alerts of one collector. Details never hold message text, phone numbers or secrets."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        kept_max: int,
        repeat_s: float = REPEAT_S,
        on_alert: OnAlert = nobody,
    ) -> None:
        """``on_alert`` is told whatever is logged."""
        self._now, self._repeat, self._on_alert = now, timedelta(seconds=repeat_s), on_alert
        self._ring: deque[AlertLine] = deque(maxlen=kept_max)
        self._active: dict[tuple[str, str], _Active] = {}
        self._active_max = kept_max
        self._changed = asyncio.Event()

    async def load(self, store: Store) -> None:
        """Takes over the ring that an earlier process left."""
        kept = await read_document(store, META_KEY, list[AlertLine], self)
        self._ring.extendleft(reversed(kept or []))

    def raise_(self, alert: str, subject: str = "", detail: str = "", *, fades: bool = False) -> None:
        """Begins an alert; while it lasts, repetitions count and renew it. ``fades``: it ends when quiet."""
        active = self._active.get((alert, subject))
        now = self._now()
        if active is not None:
            active.last_at = now
            active.count += 1
            active.detail = detail or active.detail
            return
        if len(self._active) >= self._active_max and any(name == alert for name, _ in self._active):
            return  # a flood of one alert must not hide another
        self._active[(alert, subject)] = _Active(now, now, now, fades, detail)
        self._tell("raised", alert, subject, detail)

    def resolve(self, alert: str, subject: str = "") -> None:
        """Ends an alert; nothing happens when there is none."""
        active = self._active.pop((alert, subject), None)
        if active is not None:
            self._tell("resolved", alert, subject, f"seen {active.count} times")

    def fade(self) -> None:
        """Ends the fading alerts that were not repeated for long."""
        now = self._now()
        old = [key for key, active in self._active.items() if active.fades and now - active.last_at > QUIET]
        for alert, subject in old:
            self.resolve(alert, subject)

    def repeat(self) -> None:
        """Says again what has lasted long since it was said."""
        now = self._now()
        for (alert, subject), active in self._active.items():
            if now - active.told_at >= self._repeat:
                active.told_at = now
                since = f"{active.count} times since {active.raised_at:%Y-%m-%d %H:%M} UTC"
                self._tell("repeated", alert, subject, f"{active.detail} ({since})".lstrip())

    def active(self) -> Iterator[dict[str, object]]:
        """What lasts now, for status and heartbeat."""
        for (alert, subject), active in self._active.items():
            yield {
                "alert": alert,
                "subject": subject,
                "detail": active.detail,
                "since": active.raised_at.isoformat(),
                "count": active.count,
            }

    def recent(self) -> list[AlertLine]:
        """The ring, oldest first."""
        return list(self._ring)

    async def save(self, store: Store) -> None:
        """Writes the ring when it changed; what comes meanwhile, or a failure, is for the next time."""
        if not self._changed.is_set():
            return
        self._changed.clear()
        try:
            await store.set_meta(META_KEY, json.dumps(list(self._ring)).encode())
        except BaseException:
            self._changed.set()
            raise

    async def keep_saved(self, store: Store) -> None:
        """Runs for ever: writes the ring soon after each change; a failing store is tried again."""
        while True:
            await self._changed.wait()
            with contextlib.suppress(StoreUnavailable):
                await self.save(store)
            await asyncio.sleep(SAVE_EVERY_S_MIN)

    def _tell(self, what: str, alert: str, subject: str, detail: str) -> None:
        _log.warning(f"alert.{what}", alert=alert, subject=subject, detail=detail)
        self._ring.append(
            {
                "at": self._now().isoformat(),
                "what": what,
                "alert": alert,
                "subject": subject,
                "detail": detail,
            }
        )
        self._changed.set()
        self._on_alert(what, alert, subject, detail)
