"""The commands that run until they are stopped: ``up``, ``serve``, ``collect``; and ``db upgrade``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
from typing import Annotated, Final

from cyclopts import App, Parameter, validators
from rich.console import Console

from collector.daemon import Daemon, DaemonState
from zaplake import logs
from zaplake.announcing import announcing_of_collector
from zaplake.cli.options import AsJson, Common, settle
from zaplake.database import lake_dsn, migrate, required_dsn
from zaplake.demo import Demo, channels_told
from zaplake.embedded import EmbeddedPostgres
from zaplake.house import Watcher, run_backend, run_house, url_of
from zaplake.process import naming_the_port, run_until_stopped
from zaplake.secret import ensure_secret
from zaplake.settings import Settings, refuse_misfit
from zaplake.tracing import traced
from zaplake.trouble import UsageTrouble
from zaplake.view import JsonLines, LiveTable, PlainLines, gateway_urls, told_doors
from zaplake.wiring import collector_config, ingest_config, signing_secrets, verbs_config
from zaplake.workers import run_workers, stdin_closed

DEMO_PER_SECOND: Final = 8.0
HttpPort = Annotated[int | None, Parameter(name="--http-port")]
CollectorPort = Annotated[int | None, Parameter(name="--collector-port")]
db = App(name="db", help="Look after the lake's schema.")


def up(
    *,
    demo: bool = False,
    as_json: AsJson = False,
    http_port: HttpPort = None,
    collector_port: CollectorPort = None,
    seed: int | None = None,
    drop: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=1))] = 0.0,
    common: Common | None = None,
) -> int:
    """Run everything on this machine: Postgres, backend, collector.

    Brings its own Postgres unless DATABASE_URL is set, and makes its own signing secret when none is set.
    SIGTERM or Ctrl-C stops it cleanly.

    **Examples**

    ```sh
    zaplake up --demo
    AMQP_URL=amqp://guest:guest@127.0.0.1/ zaplake up --demo --drop 0.2
    zaplake up --json --data-dir /var/lib/zaplake --http-port 8000 --collector-port 8080
    ```

    Parameters
    ----------
    demo
        Add a simulated Evolution gateway that sends, repeats and reorders events.
    as_json
        One JSON line a state change on stdout; the first is {"state":"ready", …} with the URLs.
    http_port
        Port of the backend; 0 takes a free one. [default: 8000]
    collector_port
        Port the gateways post to; 0 takes a free one. [default: 8080]
    seed
        Seed of the demo's story. [default: by chance]
    drop
        Share of the demo's events that come by only one of webhook and RabbitMQ; needs AMQP_URL.
    """
    settings = settle(common, {"ingest.port": http_port, "collector.port": collector_port})
    if settings.ingest.port == settings.collector.port != 0:
        raise UsageTrouble(
            f"ingest.port and collector.port are both {settings.ingest.port}",
            "give one of them another port: --http-port N, --collector-port N",
        )
    refuse_misfit(settings)
    if not settings.signing_secrets:
        ensure_secret(settings.data_dir)
    story = None
    if demo:
        chosen = random.getrandbits(32) if seed is None else seed
        story = Demo(seed=chosen, per_second=DEMO_PER_SECOND, drop_share=drop)
    with logs.unfailing_stdout():
        _run_with_postgres(settings, story=story, as_json=as_json)
        if as_json:
            print(json.dumps({"state": "stopped"}), flush=True)
    return 0


def _run_with_postgres(settings: Settings, *, story: Demo | None, as_json: bool) -> None:
    with contextlib.ExitStack() as stack:
        postgres = None
        if settings.database_url is None:
            postgres = stack.enter_context(contextlib.closing(EmbeddedPostgres(settings.data_dir)))
        _run_house(settings, postgres=postgres, story=story, as_json=as_json)


def _run_house(
    settings: Settings, *, postgres: EmbeddedPostgres | None, story: Demo | None, as_json: bool
) -> None:
    dsn = postgres.dsn if postgres is not None else required_dsn(settings)
    note = channels_told(verbs_config(settings)) if story is not None else ""
    watcher: Watcher
    if as_json:
        watcher = JsonLines(sys.stdout, settings)
    elif sys.stdout.isatty():
        watcher = LiveTable(Console(), settings, note)
    else:
        watcher = PlainLines(sys.stdout, settings, note)

    async def main(stop: asyncio.Event) -> None:
        await migrate(dsn)
        await run_house(
            settings,
            dsn=dsn,
            secrets=signing_secrets(settings),
            watcher=watcher,
            stop=stop,
            postgres=postgres,
            demo=story,
        )

    try:
        with traced("up", os.environ):
            run_until_stopped(main)
    finally:
        logs.configure(settings.log)  # the live table had taken stderr


def serve(
    *,
    http_port: HttpPort = None,
    workers: int | None = None,
    as_json: AsJson = False,
    worker: Annotated[bool, Parameter(show=False)] = False,
    common: Common | None = None,
) -> int:
    """Run the backend that commits events to Postgres. Stateless: run as many as you like.

    Needs DATABASE_URL and ZAPLAKE_SIGNING_SECRETS; run `zaplake db upgrade` first. Answers 503 while Postgres
    is away and heals by itself.

    **Examples**

    ```sh
    DATABASE_URL=postgresql://zaplake@db/zaplake zaplake serve
    zaplake serve --workers 2 --http-port 8000
    ```

    Parameters
    ----------
    http_port
        Port to listen on; 0 takes a free one. [default: 8000]
    workers
        Processes that share the port. [default: 1]
    as_json
        JSON lines on stdout; the first is {"state":"ready","ingest":URL}.
    """
    settings = settle(common, {"ingest.port": http_port, "ingest.workers": None if worker else workers})
    config = ingest_config(settings, dsn=required_dsn(settings), secrets=signing_secrets(settings))
    host, port = settings.ingest.host, settings.ingest.port

    def ready(taken: int) -> None:
        _say("ready", "ingest", url_of(host, taken), as_json=as_json)

    async def main(stop: asyncio.Event) -> None:
        if settings.ingest.workers > 1 and not worker:
            arguments = ("serve", *_repeated(common))
            await run_workers(
                settings.ingest.workers, arguments, host=host, port=port, stop=stop, on_ready=ready
            )
            return
        orphaned = asyncio.create_task(_stop_with_parent(stop)) if worker else None
        await run_backend(settings, config, stop=stop, on_ready=ready, reuse_port=worker)
        if orphaned is not None:
            orphaned.cancel()

    with logs.unfailing_stdout(), traced("serve", os.environ):
        run_until_stopped(main)
    return 0


def collect(
    *, collector_port: CollectorPort = None, as_json: AsJson = False, common: Common | None = None
) -> int:
    """Run the collector beside a gateway: events are durable here before the gateway hears 2xx.

    Needs ZAPLAKE_COLLECTOR_BACKEND_URL and the backend's ZAPLAKE_SIGNING_SECRETS. Works on while the backend
    is away.

    **Examples**

    ```sh
    ZAPLAKE_COLLECTOR_BACKEND_URL=http://backend:8000 zaplake collect
    zaplake collect --data-dir /var/lib/zaplake --collector-port 8080 --json
    ```

    Parameters
    ----------
    collector_port
        Port the gateways post to; 0 takes a free one. [default: 8080]
    as_json
        JSON lines on stdout; the first is {"state":"ready","collector":URL,"gateways":{NAME:URL}}.
    """
    settings = settle(common, {"collector.port": collector_port})
    config = collector_config(settings, secrets=signing_secrets(settings))

    def told(state: DaemonState) -> None:
        url = url_of(config.host, state.port)
        doors = gateway_urls(settings, url) if state.state == "ready" else {}
        _say(state.state, "collector", url, as_json=as_json, **({"gateways": doors} if doors else {}))
        if not as_json and doors:
            print("\n".join(told_doors(doors)), flush=True)

    async def main(stop: asyncio.Event) -> None:
        with naming_the_port(config.host, config.port, "--collector-port"):
            async with announcing_of_collector(settings) as tell:
                await Daemon(config, on_alert=tell).run(stop, told)

    with logs.unfailing_stdout(), traced("collect", os.environ):
        run_until_stopped(main)
    return 0


@db.command
def upgrade(*, common: Common | None = None) -> int:
    """Bring the lake's schema up to date. Safe to run again, and by several at once.

    Uses DATABASE_URL, else the Postgres of the data folder.

    **Examples**

    ```sh
    DATABASE_URL=postgresql://zaplake@db/zaplake zaplake db upgrade
    ```
    """
    settings = settle(common)
    where = "DATABASE_URL" if settings.database_url is not None else f"the Postgres in {settings.data_dir}"
    with lake_dsn(settings, create=True) as dsn:
        asyncio.run(migrate(dsn))
    print(f"the schema is up to date: {where}")
    return 0


def _say(state: str, door: str, url: str, *, as_json: bool, **more: object) -> None:
    """``more`` is for machines."""
    line = json.dumps({"state": state, door: url, **more}) if as_json else f"zaplake {door} {state}: {url}"
    print(line, flush=True)


def _repeated(common: Common | None) -> list[str]:
    """The options of this command for its workers."""
    if common is None:
        return []
    given = {"--config": common.config, "--data-dir": common.data_dir, "--log-level": common.log_level}
    return [part for name, value in given.items() if value is not None for part in (name, str(value))]


async def _stop_with_parent(stop: asyncio.Event) -> None:
    await stdin_closed()
    stop.set()
