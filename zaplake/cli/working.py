"""``zaplake work``: runs the inbox's rules until it is stopped."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from cyclopts import Parameter

from ingest.inbox.service import serve_inbox
from zaplake import logs
from zaplake.cli.options import AsJson, Common, settle
from zaplake.database import required_dsn
from zaplake.house import url_of
from zaplake.process import naming_the_port, run_until_stopped
from zaplake.rules import consumers_of
from zaplake.wiring import inbox_config


def work(
    *,
    consumers: Annotated[str | None, Parameter(name="--consumers")] = None,
    work_port: Annotated[int | None, Parameter(name="--work-port")] = None,
    as_json: AsJson = False,
    common: Common | None = None,
) -> int:
    """Run the rules on what is in the lake. Run as many as you like: each event is taken once.

    Needs DATABASE_URL; run `zaplake db upgrade` first. Waits while Postgres is away and heals by itself.
    SIGTERM ends the batches that run. Its port has /healthz, /readyz, /metrics. `zaplake up` has it inside.

    **Examples**

    ```sh
    DATABASE_URL=postgresql://zaplake@db/zaplake zaplake work
    zaplake work --consumers rules --work-port 0 --json
    ```

    Parameters
    ----------
    consumers
        Names, with commas between. [default: all]
    work_port
        Port of health and metrics; 0 takes a free one. [default: 8001]
    as_json
        JSON lines on stdout; the first is {"state":"ready","work":URL}.
    """
    names = None if consumers is None else tuple(name.strip() for name in consumers.split(","))
    settings = settle(common, {"work.port": work_port, "work.consumers": names})
    chosen = consumers_of(settings.work.consumers)
    config = inbox_config(settings, dsn=required_dsn(settings))
    host, port = settings.work.host, settings.work.port

    def ready(taken: int) -> None:
        url = url_of(host, taken)
        line = json.dumps({"state": "ready", "work": url}) if as_json else f"zaplake work ready: {url}"
        print(line, flush=True)

    async def main(stop: asyncio.Event) -> None:
        with naming_the_port(host, port, "--work-port"):
            await serve_inbox(config, chosen, host=host, port=port, stop=stop, on_ready=ready)

    with logs.unfailing_stdout():
        run_until_stopped(main, spares_collector=True)
    return 0
