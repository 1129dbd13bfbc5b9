"""``zaplake alerts``: where alerts are sent."""

from __future__ import annotations

import asyncio

from cyclopts import App

from zaplake.announcing import all_services, trial_text, try_once
from zaplake.cli.options import Common, settle
from zaplake.settings import Settings
from zaplake.trouble import UsageTrouble

app = App(name="alerts", help="Look after where alerts are sent.")


@app.command(name="test")
def send_test(*, common: Common | None = None) -> int:
    """Send a test to each alert URL and say of each whether it worked.

    The URLs are those of `collector.alerts.urls` and `ingest.alerts.urls`. Exit code 1 when one failed.

    **Examples**

    ```sh
    ZAPLAKE_COLLECTOR_ALERTS_URLS=tgram://bot-token/chat-id zaplake alerts test
    zaplake alerts test --config /etc/zaplake.toml
    ```
    """
    return asyncio.run(_test(settle(common)))


async def _test(settings: Settings) -> int:
    found = all_services(settings)
    if not found:
        raise UsageTrouble(
            "no alert URL is set",
            "set ZAPLAKE_COLLECTOR_ALERTS_URLS and ZAPLAKE_INGEST_ALERTS_URLS; see docs/operations.md",
        )
    outcomes = await asyncio.gather(
        *(try_once(service, trial_text(key), timeout_s) for key, service, timeout_s in found)
    )
    for (_key, service, _timeout_s), outcome in zip(found, outcomes, strict=True):
        print(f"ok    {service.name}" if outcome is None else f"WRONG {service.name}: {outcome}")
    failed = sum(outcome is not None for outcome in outcomes)
    if failed:
        print(f"      → {failed} of {len(found)} failed: check the URL, the token in it, and the network")
    return 1 if failed else 0
