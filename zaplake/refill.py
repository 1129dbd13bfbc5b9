"""Pulls a gateway's stored messages into the outbox, page by page; what is known already is not doubled.

The same message has the same id whichever way it comes, so a refill may overlap with everything: with
itself, with what the doors bring meanwhile, and with what was delivered long ago.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from collector.offline import Session
from zaplake.evolution import Evolution

PAGE_RECORDS: Final = 100
OVERLAP: Final = timedelta(minutes=10)
"""Taken beyond the wanted moment: phones' clocks differ, and some messages came late."""
OLD_PAGES_MAX: Final = 2
"""The newest come first: behind so many pages that are wholly older than that, nothing is expected."""


@dataclass(slots=True, kw_only=True)
class Refilled:
    """How far a refill is. ``page`` is the one to go on with after an interruption."""

    page: int
    pages: int | None = None
    """That the gateway has of this instance, wanted or not."""
    found: int = 0
    """Messages since the wanted moment."""
    counts: Counter[str] = field(default_factory=Counter)
    """What became of their facts: ``stored`` is what was missing."""
    is_complete: bool = False

    def document(self) -> dict[str, object]:
        """For machines."""
        return {
            "page": self.page,
            "pages": self.pages,
            "found": self.found,
            "counts": dict(self.counts),
            "is_complete": self.is_complete,
        }


async def refill(
    evolution: Evolution,
    session: Session | None,
    *,
    gateway: str,
    instance: str,
    since: datetime,
    report: Refilled,
    pages_max: int,
    on_page: Callable[[Refilled], None],
) -> None:
    """Fills ``report`` from its page on, newest messages first. ``session`` None only looks.

    Each page is durable before the next is asked for. Messages that come meanwhile push others to later
    pages, so none is passed over. Raises Trouble, and what the session raises; the report has the page then.
    """
    oldest, old_pages, last = since - OVERLAP, 0, report.page + pages_max
    while report.page < last:
        page = await evolution.messages(instance, page=report.page, size=PAGE_RECORDS)
        report.pages = page.pages
        wanted = [record for record in page.records if is_wanted(record, oldest)]
        report.found += len(wanted)
        if wanted and session is not None:
            request = {"verb": "refill", "gateway": gateway, "instance": instance, "records": wanted}
            report.counts.update((await session.ask(request))["counts"])
        old_pages = 0 if wanted else old_pages + 1
        report.is_complete = not page.records or report.page >= page.pages or old_pages >= OLD_PAGES_MAX
        on_page(report)
        if report.is_complete:
            return
        report.page += 1


def is_wanted(record: dict[str, Any], oldest: datetime) -> bool:
    """Whether a message is as new as ``oldest``; one whose time cannot be read is wanted."""
    at_s = record.get("messageTimestamp")
    if isinstance(at_s, str) and at_s.isdecimal():
        at_s = int(at_s)
    if not isinstance(at_s, int | float):
        return True
    try:
        return datetime.fromtimestamp(at_s, UTC) >= oldest
    except (ValueError, OverflowError, OSError):
        return True
