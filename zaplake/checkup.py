"""What ``zaplake doctor`` tries: each check does the thing itself and says what to run next when it fails."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import asyncpg
import httpx
from alembic.config import Config
from alembic.script import ScriptDirectory

from collector.control import NotAnswering, NotRunning, ask
from collector.verbs import Document, VerbError, unheard
from ingest.direct.statements import COUNT_LIVE_GRANTS
from zaplake import backend_checks, statements
from zaplake.alert_steps import STEPS
from zaplake.blob import is_writable
from zaplake.broker_checks import check_brokers
from zaplake.connecting import check as check_gateway
from zaplake.database import lake_dsn
from zaplake.embedded import has_cluster
from zaplake.finding import Finding
from zaplake.machine import examine_machine
from zaplake.query import connect
from zaplake.settings import Settings
from zaplake.trouble import Trouble, collector_hangs
from zaplake.wiring import outbox_folder, signing_secrets, verbs_config
from zaplake.wording import counted

POSTGRES_MIN: Final = 150_000
"""As server_version_num: PostgreSQL 15."""
BACKLOG_AGE_S_MAX: Final = 300.0
ALERTS_MAX: Final = 50
"""Of the backend's; who has more has one trouble behind them."""
SAID_ELSEWHERE: Final = frozenset({"shipper.halted", "outbox.dead", "outbox.backlog"})


async def examine(settings: Settings) -> AsyncIterator[Finding]:
    """All checks, in the order in which an event's way home would be repaired."""
    for finding in await asyncio.to_thread(list, examine_machine(settings.data_dir.resolve())):
        yield finding
    status, hangs = await _collector_status(settings)
    secrets, finding = _secrets(settings, is_running=hangs or status is not None)
    yield finding
    backend_url = str(status["backend_url"]) if status is not None else settings.collector.backend_url
    backend = await backend_checks.answers(backend_url)
    if not _has_lake(settings) and (backend.is_well or _has_outbox(settings)):
        yield Finding(what="no Postgres here: the backend has its own")
    else:
        async for finding in _postgres(settings):
            yield finding
        yield await is_writable(settings)
    yield backend
    if backend.is_well:
        yield await backend_checks.can_commit(backend_url)
        yield await backend_checks.has_our_clock(backend_url)
        if secrets:
            yield await backend_checks.takes_our_secret(backend_url, secrets[0])
    if backend.is_well and status is None and _serves_only(settings):
        yield Finding(what="no collector here: this machine serves")
        return
    async for finding in _collector(settings, status, hangs=hangs):
        yield finding
    async for finding in check_brokers(settings):
        yield finding
    if settings.evolution.api_url:
        async for finding in check_gateway(settings):
            yield finding
    else:
        yield Finding(what="gateway: not asked; ZAPLAKE_EVOLUTION_API_URL names an Evolution API")


def _secrets(settings: Settings, *, is_running: bool) -> tuple[tuple[bytes, ...], Finding]:
    """Those of this shell, which need not be those of a collector that runs."""
    try:
        secrets = signing_secrets(settings)
    except Trouble as trouble:
        if is_running:
            return (), Finding(what="signing secret: none in this shell; the running collector has its own")
        return (), Finding(what=trouble.what, next_step=f"{trouble.next_step}; `zaplake up` makes its own")
    source = "settings" if settings.signing_secrets else "data folder"
    return secrets, Finding(what=f"signing secret: {len(secrets)} from the {source}")


def _has_lake(settings: Settings) -> bool:
    return settings.database_url is not None or has_cluster(settings.data_dir)


def _has_outbox(settings: Settings) -> bool:
    return outbox_folder(settings).exists()


def _serves_only(settings: Settings) -> bool:
    return settings.database_url is not None and not _has_outbox(settings)


async def _postgres(settings: Settings) -> AsyncIterator[Finding]:
    name = "DATABASE_URL" if settings.database_url is not None else "the data folder"
    with contextlib.ExitStack() as stack:
        try:
            dsn = await asyncio.to_thread(stack.enter_context, lake_dsn(settings))
            connection = await connect(dsn)
        except Trouble as trouble:
            yield Finding(what=f"Postgres of {name}: {trouble.what}", next_step=trouble.next_step)
            return
        try:
            yield await _version(connection, name)
            schema = await _schema(connection)
            yield schema
            if schema.is_well:
                async for finding in _lake(connection):
                    yield finding
        finally:
            await connection.close()


async def _lake(connection: asyncpg.Connection[Any]) -> AsyncIterator[Finding]:
    """What is in it for an operator."""
    try:
        tokens = await connection.fetchval(COUNT_LIVE_GRANTS)
        alerts = await connection.fetch(statements.OPEN_ALERTS, ALERTS_MAX)
    except asyncpg.PostgresError as error:
        yield Finding(what=f"the lake cannot be read: {error}", next_step="grant this role select on it")
        return
    if tokens:
        yield Finding(what=f"direct door: {counted(tokens, 'gateway token')}")
    for alert in alerts:
        yield Finding(
            what=f"the backend's alert {alert['name']} {alert['subject']}".rstrip(),
            next_step=STEPS.get(alert["name"], "see the backend's log"),
        )


async def _version(connection: asyncpg.Connection[Any], name: str) -> Finding:
    version = await connection.fetchrow(statements.SERVER_VERSION)
    if version["number"] < POSTGRES_MIN:
        return Finding(
            what=f"Postgres of {name} is {version['name']}",
            next_step=f"move to PostgreSQL {POSTGRES_MIN // 10_000} or newer",
        )
    return Finding(what=f"Postgres of {name}: {version['name']}, answers")


async def _schema(connection: asyncpg.Connection[Any]) -> Finding:
    config = Config()
    config.set_main_option("script_location", "migrations:")
    wanted = ScriptDirectory.from_config(config).get_current_head()
    try:
        found = await connection.fetchval(statements.SCHEMA_VERSION)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        found = None
    except asyncpg.PostgresError as error:
        return Finding(
            what=f"the schema cannot be read: {error}", next_step="grant this role usage on schema lake"
        )
    if found != wanted:
        return Finding(
            what=f"schema: {found or 'none'}, this release needs {wanted}",
            next_step="run: zaplake db upgrade",
        )
    return Finding(what=f"schema: {found}")


async def _collector_status(settings: Settings) -> tuple[Document | None, bool]:
    """What it says of itself, and whether it hangs."""
    try:
        return await ask(verbs_config(settings).socket_path, {"verb": "status"}, unheard), False
    except NotAnswering:
        return None, True
    except (NotRunning, VerbError, ConnectionError, PermissionError):
        return None, False


async def _collector(settings: Settings, status: Document | None, *, hangs: bool) -> AsyncIterator[Finding]:
    if hangs:
        trouble = collector_hangs(outbox_folder(settings))
        yield Finding(what=trouble.what, next_step=trouble.next_step)
    elif status is None:
        async for finding in _no_collector(settings):
            yield finding
    else:
        for finding in _running(status):
            yield finding


async def _no_collector(settings: Settings) -> AsyncIterator[Finding]:
    host, port = settings.collector.host, settings.collector.port
    yield Finding(
        what=f"no collector runs on {outbox_folder(settings)}",
        next_step="run: zaplake up (or zaplake collect)",
    )
    if not port or not _is_taken(host, port):
        return
    step = "end it, or use --collector-port N (ZAPLAKE_COLLECTOR_PORT)"
    door = await backend_checks.answers(str(httpx.URL(scheme="http", host=host, port=port)))
    if door.is_well:  # the doors of collectors and backends say the same
        yield Finding(
            what=f"and port {port} of {host} is taken by another zaplake",
            next_step=f"if that is your collector, name its folder with --data-dir; else {step}",
        )
    else:
        yield Finding(what=f"and port {port} of {host} is taken by another program", next_step=step)


def _running(status: Document) -> Iterator[Finding]:
    waiting = counted(status["outbox"]["waiting"], "record")
    yield Finding(what=f"collector {status['name']}: runs, waiting: {waiting}")
    shipper, outbox = status["shipper"], status["outbox"]
    if shipper["halted"]:
        yield Finding(
            what=f"shipping is halted: {shipper['halt_reason']}",
            next_step="repair what it names (URL, secret, proxy); shipping goes on by itself",
        )
    elif (outbox["oldest_age_s"] or 0) > BACKLOG_AGE_S_MAX:
        yield Finding(
            what=f"the oldest record waits for {outbox['oldest_age_s']:.0f} s",
            next_step="look at: zaplake collector status",
        )
    for alert in status["alerts"]["active"]:
        if alert["alert"] not in SAID_ELSEWHERE:
            yield Finding(
                what=f"{alert['alert']} {alert['subject']}".rstrip() + f": {alert['detail']}",
                next_step=STEPS.get(alert["alert"], "see the collector's log"),
            )
    if outbox["dead"]:
        yield Finding(
            what=f"dead letters: {outbox['dead']}",
            next_step="look at: zaplake collector dead list; then dead requeue or dead drop",
        )


def _is_taken(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False
