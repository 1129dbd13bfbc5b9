"""Tells people of alerts: off every hot path, in bounded memory, each service by itself, until it is told.

A service that fails is tried again for ever, ever more slowly; it neither delays the others nor ends the
process. Alerts that come together, or while a service is away, reach it as one summary.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Final, TypeAlias

import structlog

from zaplake.announcement import Announcement, Text, summary
from zaplake.outlets import Service, services
from zaplake.settings import AlertSettings, Settings

COLLECTOR_KEY: Final = "collector.alerts"
BACKEND_KEY: Final = "ingest.alerts"
PENDING_MAX: Final = 500
"""Alerts that wait for one service; of further ones only the number is told."""
RETRY_S_MAX: Final = 900.0
LAST_WORDS_S_MAX: Final = 5.0
"""What a stop waits for alerts that nobody was told of yet."""

Tell: TypeAlias = Callable[[str, str, str, str], None]
"""``tell(what, alert, subject, detail)``: takes a moment, never raises."""
_log = structlog.get_logger("zaplake.alerts")


@contextlib.asynccontextmanager
async def announcing(settings: AlertSettings, *, key: str, who: str) -> AsyncIterator[Tell]:
    """Sends what is told to all URLs of ``settings``, for as long as the block runs and a little longer.

    Raises UsageTrouble for a URL that nobody understands.
    """
    outlets = [_Outlet(service, settings, who) for service in services(settings.urls, f"{key}.urls")]
    tasks = [asyncio.create_task(outlet.run(), name="announcing") for outlet in outlets]

    def tell(what: str, alert: str, subject: str, detail: str) -> None:
        news = Announcement(at=datetime.now(UTC), what=what, alert=alert, subject=subject, detail=detail)
        for outlet in outlets:
            outlet.add(news)

    try:
        yield tell
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(outlet.last_words() for outlet in outlets), return_exceptions=True)


def announcing_of_collector(settings: Settings) -> contextlib.AbstractAsyncContextManager[Tell]:
    """``announcing`` for the collector of these settings."""
    who = f"collector {settings.collector.name}"
    return announcing(settings.collector.alerts, key=COLLECTOR_KEY, who=who)


def announcing_of_backend(settings: Settings) -> contextlib.AbstractAsyncContextManager[Tell]:
    """``announcing`` for the backend of these settings."""
    return announcing(settings.ingest.alerts, key=BACKEND_KEY, who="backend")


async def try_once(service: Service, text: Text, timeout_s: float) -> str | None:
    """One text, now. None when the service took it, else why not."""
    return await _Sending(service).attempt(text, timeout_s)


class _Sending:
    """At most one text on its way. It has a thread of its own, which a stop need not wait for."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._running: asyncio.Future[str | None] | None = None

    async def attempt(self, text: Text, timeout_s: float) -> str | None:
        """None when the service took it. After a timeout the next call waits for the same attempt first."""
        if self._running is None:
            self._running = self._start(text)
        await asyncio.wait({self._running}, timeout=timeout_s)
        if not self._running.done():
            return "timeout"
        outcome, self._running = self._running.result(), None
        return outcome

    def _start(self, text: Text) -> asyncio.Future[str | None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str | None] = loop.create_future()

        def settle(outcome: str | None) -> None:
            if not future.done():
                future.set_result(outcome)

        def work() -> None:
            outcome = self._service.send(text)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, outcome)

        threading.Thread(target=work, name="alert", daemon=True).start()
        return future


class _Outlet:
    """The queue of one service: the last news of each alert."""

    def __init__(self, service: Service, settings: AlertSettings, who: str) -> None:
        self._service, self._settings, self._who = service, settings, who
        self._sending = _Sending(service)
        self._pending: dict[tuple[str, str], Announcement] = {}
        self._left_out = 0
        self._text: Text | None = None
        """What is being told now."""
        self._wake = asyncio.Event()

    def add(self, news: Announcement) -> None:
        """Replaces older news of the same alert."""
        key = (news.alert, news.subject)
        if key in self._pending or len(self._pending) < PENDING_MAX:
            self._pending[key] = news
        else:
            self._left_out += 1
        self._wake.set()

    async def run(self) -> None:
        """Runs for ever."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._settings.gather_s)
            await self._tell_until_told()
            await asyncio.sleep(self._settings.pause_s)

    async def last_words(self) -> None:
        """One more attempt, short, when something was not told."""
        reason = await self._attempt(min(LAST_WORDS_S_MAX, self._settings.timeout_s))
        if reason is not None:
            _log.warning("alert.unsent", service=self._service.name, reason=reason)

    async def _tell_until_told(self) -> None:
        failures = 0
        while (reason := await self._attempt(self._settings.timeout_s)) is not None:
            failures += 1
            _log.warning("alert.unsent", service=self._service.name, reason=reason, failures=failures)
            await asyncio.sleep(retry_after_s(failures, self._settings.retry_s))

    async def _attempt(self, timeout_s: float) -> str | None:
        """None when nothing is left to tell, else why not. Never raises."""
        try:
            text = self._next()
            reason = None if text is None else await self._sending.attempt(text, timeout_s)
        except Exception as error:  # such as no thread to be had now: whoever ends here is never heard again
            return type(error).__name__
        if text is not None and reason is None:
            self._text = None
            _log.info("alert.sent", service=self._service.name, title=text.title)
        return reason

    def _next(self) -> Text | None:
        """The text that is not told yet, else one of all that waits."""
        if self._text is None and self._pending:
            self._text = summary(self._who, list(self._pending.values()), self._left_out)
            self._pending.clear()
            self._left_out = 0
            self._wake.clear()
        return self._text


def retry_after_s(failures: int, first_s: float) -> float:
    """Twice as long after each failure, up to 15 minutes."""
    return min(RETRY_S_MAX, first_s * 2.0 ** min(failures - 1, 20))


def trial_text(key: str) -> Text:
    """What ``zaplake alerts test`` sends."""
    return Text(
        title="zaplake: test", body=f"This is where alerts of {key} will arrive. All is well.", kind="info"
    )


def all_services(settings: Settings) -> list[tuple[str, Service, float]]:
    """(key, service, its time limit) of every URL. Raises UsageTrouble."""
    places = ((COLLECTOR_KEY, settings.collector.alerts), (BACKEND_KEY, settings.ingest.alerts))
    return [
        (key, service, alerts.timeout_s)
        for key, alerts in places
        for service in services(alerts.urls, f"{key}.urls")
    ]
