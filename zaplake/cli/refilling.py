"""``zaplake collector refill``: what the doors missed, out of the gateway's own store."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime

from collector.offline import Session
from contracts.times import as_datetime
from zaplake.cli.asking import converse
from zaplake.cli.options import AsJson, Common, settle
from zaplake.connecting import client_of, door_of
from zaplake.refill import Refilled
from zaplake.refill import refill as pull
from zaplake.settings import Settings
from zaplake.trouble import Trouble, UsageTrouble
from zaplake.wording import counted


def refill(
    *,
    instance: str,
    since: str,
    url: str | None = None,
    gateway: str | None = None,
    page: int = 1,
    pages_max: int = 10_000,
    dry_run: bool = False,
    as_json: AsJson = False,
    common: Common | None = None,
) -> int:
    """Pull an instance's messages out of Evolution's own store; what is known already is not doubled.

    For a time in which neither webhook nor RabbitMQ brought anything. It finds what Evolution has stored
    (DATABASE_SAVE_DATA_NEW_MESSAGE there), newest first. Works beside a running collector and without one.
    The API key is ZAPLAKE_EVOLUTION_API_KEY. Exit code 1 when it ended before its end.

    **Examples**

    ```sh
    zaplake collector refill --instance loja-sp --since 2026-05-01T08:00:00Z --dry-run
    zaplake collector refill --instance loja-sp --since 2026-05-01T08:00:00Z
    ```

    Parameters
    ----------
    instance
        The instance's name there.
    since
        The moment, with its zone.
    url
        Root of its API; else evolution.api_url.
    gateway
        Name of the [[gateways]] entry; else evolution.gateway. Needed when there are several.
    page
        Page of a hundred messages to begin with: go on where an interrupted refill says.
    pages_max
        Pages to ask for at most.
    dry_run
        Only count what the gateway has.
    as_json
        One JSON object.
    """
    settings = settle(common, {"evolution.api_url": url, "evolution.gateway": gateway})
    report = Refilled(page=page)
    _pull(settings, report, instance, _moment(since), pages_max=pages_max, dry_run=dry_run)
    if as_json:
        print(json.dumps(report.document()))
    else:
        _tell(report, dry_run=dry_run)
    return 0 if report.is_complete else 1


def _moment(since: str) -> datetime:
    moment = as_datetime(since)
    if moment is None:
        raise UsageTrouble(f"--since {since} is no moment", "write it with its zone: 2026-05-01T00:00:00Z")
    return moment


def _pull(
    settings: Settings, report: Refilled, instance: str, since: datetime, *, pages_max: int, dry_run: bool
) -> None:
    first, name = report.page, door_of(settings).gateway.name
    if first < 1 or pages_max < 1:
        raise UsageTrouble("--page and --pages-max begin with 1", "leave them out to pull everything")

    async def talk(session: Session | None) -> None:
        async with client_of(settings) as evolution:
            await pull(
                evolution,
                session,
                gateway=name,
                instance=instance,
                since=since,
                report=report,
                pages_max=pages_max,
                on_page=_show_page,
            )

    try:
        if dry_run:
            asyncio.run(talk(None))
        else:
            converse(settings, talk, create=True)
    except Trouble as trouble:
        if report.page == first:
            raise
        step = f"{trouble.next_step}; then go on with --page {report.page}"
        raise Trouble(f"page {report.page}: {trouble.what}", step) from trouble


def _show_page(report: Refilled) -> None:
    if sys.stderr.isatty():
        print(f"page {report.page} of {report.pages}: {counted(report.found, 'message')}", file=sys.stderr)


def _tell(report: Refilled, *, dry_run: bool) -> None:
    if dry_run:
        print(f"the gateway has {counted(report.found, 'message')} since then; nothing was taken")
    else:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(report.counts.items()))
        print(f"{counted(report.found, 'message')}: {counts or 'nothing new'}")
    if not report.is_complete:
        print(f"→ there is more: go on with --page {report.page}")
