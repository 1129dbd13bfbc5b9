"""``zaplake gateway token``: what lets a gateway post to the backend without a collector."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from datetime import datetime

from cyclopts import App
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.configured import Family
from zaplake import gateway_tokens
from zaplake.cli.options import AsJson, Common, settle
from zaplake.cli.showing import second
from zaplake.database import lake_dsn
from zaplake.gateway_tokens import Listed

app = App(name="token", help="Tokens of gateways that post to the backend without a collector.")


@app.command
def create(
    gateway: str,
    /,
    *,
    family: Family | None = None,
    instance: tuple[str, ...] = (),
    as_json: AsJson = False,
    common: Common | None = None,
) -> int:
    """Make a token for a gateway, and show it this one time; the database keeps its hash.

    The gateway posts to /api/gateways/GATEWAY with it. A collector is better where one can run: it takes
    events while the backend is away. Uses DATABASE_URL, else the Postgres of the data folder.

    **Examples**

    ```sh
    zaplake gateway token create evolution
    zaplake gateway token create shop-bot --family baileys --instance loja-sp --json
    ```

    Parameters
    ----------
    gateway
        Its name: part of the path and, by default, of the scope.
    family
        What it is; not needed when the settings say it, or when it is named like its family.
    instance
        Only this native instance (repeatable); all when not given.
    as_json
        One JSON object.
    """
    settings = settle(common)
    known = gateway_tokens.family_for(settings, gateway, family)
    with lake_dsn(settings) as dsn:
        made = asyncio.run(gateway_tokens.create(dsn, gateway, known, instance))
    if as_json:
        print(json.dumps({**asdict(made), "path": f"/api/gateways/{gateway}"}))
        return 0
    print(f"token {made.id} for {gateway} ({known}), instances: {', '.join(made.instances) or 'all'}")
    print(f"\n  {made.token}\n")
    print("It is shown this once. The gateway posts to the backend with it:")
    print(f"  POST /api/gateways/{gateway}, header X-Gateway-Token or Authorization: Bearer")
    print(f"  POST /api/gateways/{gateway}/<token>, where it can send no header")
    return 0


@app.command(name="list")
def list_(*, all_: bool = False, as_json: AsJson = False, common: Common | None = None) -> int:
    """List the tokens by gateway: never the token itself.

    **Examples**

    ```sh
    zaplake gateway token list
    zaplake gateway token list --all --json
    ```

    Parameters
    ----------
    all_
        The revoked ones too.
    as_json
        A JSON array.
    """
    with lake_dsn(settle(common)) as dsn:
        found = asyncio.run(gateway_tokens.listed(dsn, revoked_too=all_))
    if as_json:
        print(json.dumps([asdict(token) for token in found], default=datetime.isoformat))
    elif not found:
        print("no token; make one: zaplake gateway token create GATEWAY")
    else:
        Console().print(_table(found, revoked_too=all_))
    return 0


@app.command
def revoke(token_id: str, /, *, common: Common | None = None) -> int:
    """Revoke a token for good; running backends may take it for ingest.limits.token_known_s_max (10 s) more.

    **Examples**

    ```sh
    zaplake gateway token revoke 0123456789ab
    ```

    Parameters
    ----------
    token_id
        As `list` shows it.
    """
    with lake_dsn(settle(common)) as dsn:
        gateway, at = asyncio.run(gateway_tokens.revoke(dsn, token_id))
    print(f"token {token_id} of {gateway} is revoked since {second(at.isoformat())}")
    return 0


def _table(tokens: list[Listed], *, revoked_too: bool) -> Table:
    shown = Table()
    columns = ("id", "gateway", "family", "instances", "created", "last used", "revoked")
    for column in columns if revoked_too else columns[:-1]:
        shown.add_column(column, no_wrap=column == "id", overflow="fold")
    for token in tokens:
        cells = (
            token.id,
            token.gateway,
            token.family,
            ", ".join(token.instances) or "all",
            f"{token.created_at:%Y-%m-%d}",
            "never" if token.last_used_at is None else f"{token.last_used_at:%Y-%m-%d %Hh}",
            "" if token.revoked_at is None else f"{token.revoked_at:%Y-%m-%d}",
        )
        shown.add_row(*map(Text, cells[: len(shown.columns)]))
    return shown
