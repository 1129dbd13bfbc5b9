"""``zaplake gateway``: connect a gateway's webhook to the collector, and look whether it is connected."""

from __future__ import annotations

import asyncio
import json
from typing import Literal

from cyclopts import App

from zaplake.cli import tokens
from zaplake.cli.findings import tell
from zaplake.cli.options import AsJson, Common, settle
from zaplake.connecting import OPEN, Connected, check, client_of, connect, door_of
from zaplake.settings import Settings

app = App(name="gateway", help="Look after the gateways' webhooks, and their tokens at the backend.")
app.command(tokens.app)


@app.command(name="connect")
def connect_(
    family: Literal["evolution"],
    /,
    *,
    instance: str,
    url: str | None = None,
    collector_url: str | None = None,
    gateway: str | None = None,
    event: tuple[str, ...] = (),
    dry_run: bool = False,
    as_json: AsJson = False,
    common: Common | None = None,
) -> int:
    """Point an instance's webhook at the collector, with its secret and all events; read it back.

    The gateway's API key is ZAPLAKE_EVOLUTION_API_KEY (or evolution.api_key), never an option. Speaks to
    Evolution 1.8 and 2. Running it again changes nothing. Exit code 1 when something is not as wanted.

    **Examples**

    ```sh
    zaplake gateway connect evolution --instance loja-sp --url http://127.0.0.1:8081 --collector-url http://127.0.0.1:8080
    zaplake gateway connect evolution --instance loja-sp --dry-run
    ```

    Parameters
    ----------
    family
        The kind of gateway.
    instance
        The instance's name there.
    url
        Root of its API; else evolution.api_url.
    collector_url
        How the gateway reaches the collector; else evolution.collector_url.
    gateway
        Name of the [[gateways]] entry; else evolution.gateway. Needed when there are several.
    event
        Only this event, such as MESSAGES_UPSERT (repeatable); all when not given.
    dry_run
        Only say what differs.
    as_json
        One JSON object.
    """
    assert family == "evolution", "the only one that can be connected by its API"
    settings = settle(
        common,
        {"evolution.api_url": url, "evolution.collector_url": collector_url, "evolution.gateway": gateway},
    )
    outcome = asyncio.run(_connect(settings, instance, event, dry_run=dry_run))
    if as_json:
        print(json.dumps(_document(outcome)))
    else:
        _tell(outcome, dry_run=dry_run)
    return 0 if dry_run or (not outcome.after and outcome.state == OPEN) else 1


@app.command(name="check")
def check_(*, gateway: str | None = None, common: Common | None = None) -> int:
    """Look whether Evolution answers, each instance is open, and its webhook is ours.

    Looks at `instances` of the gateway's entry, else at all that Evolution has. Changes nothing. Exit
    code 1 when something needs you.

    **Examples**

    ```sh
    ZAPLAKE_EVOLUTION_API_URL=http://127.0.0.1:8081 zaplake gateway check
    ```

    Parameters
    ----------
    gateway
        Name of the [[gateways]] entry; else evolution.gateway. Needed when there are several.
    """
    return asyncio.run(tell(check(settle(common, {"evolution.gateway": gateway}))))


async def _connect(settings: Settings, instance: str, events: tuple[str, ...], *, dry_run: bool) -> Connected:
    door = door_of(settings)
    async with client_of(settings) as evolution:
        return await connect(evolution, door, instance, events, dry_run=dry_run)


def _document(outcome: Connected) -> dict[str, object]:
    def listed(name: Literal["before", "after"]) -> list[dict[str, str]]:
        return [{"what": d.what, "found": d.found, "wanted": d.wanted} for d in getattr(outcome, name)]

    return {
        "instance": outcome.instance,
        "version": outcome.version,
        "state": outcome.state,
        "url": outcome.url,
        "changed": outcome.changed,
        "before": listed("before"),
        "after": listed("after"),
    }


def _tell(outcome: Connected, *, dry_run: bool) -> None:
    print(f"instance {outcome.instance} of Evolution {outcome.version}: {outcome.state or 'not loaded'}")
    for difference in outcome.before:
        print(f"  {difference}")
    if dry_run:
        would = "would be set" if outcome.before else "is as wanted"
        print(f"webhook {outcome.url} {would}; nothing was changed")
    elif outcome.after:
        print(f"webhook {outcome.url} was set, but it is still not as wanted:")
        for difference in outcome.after:
            print(f"  {difference}")
        print("→ see the gateway's log; an old release may not know what is missing")
    else:
        print(f"webhook {outcome.url} {'is set' if outcome.changed else 'was set already'}")
    if outcome.state != OPEN:
        print("→ nothing arrives until the instance is open: pair it in the gateway's /manager")
