"""The Postgres of a bench: ``DATABASE_URL`` or the embedded one, with a fresh migrated database for a run."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from ingest import schema
from zaplake.embedded import EmbeddedPostgres

SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")


@contextmanager
def server() -> Iterator[str]:
    """The DSN of a server where databases may be made."""
    given = os.environ.get("DATABASE_URL")
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="zlbench-", ignore_cleanup_errors=True) as folder:
        postgres = EmbeddedPostgres(Path(folder))
        try:
            yield postgres.dsn
        finally:
            postgres.close()


@contextmanager
def database(server_dsn: str, name: str, *, template: str | None = None) -> Iterator[str]:
    """A fresh migrated database, or a copy of another one; dropped afterwards."""
    parts = urlsplit(server_dsn)
    name = f"zaplake_bench_{os.getpid()}_{name.lower()}"
    dsn = urlunsplit(parts._replace(path=f"/{name}"))
    asyncio.run(_execute(server_dsn, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))
    copied = "" if template is None else f' TEMPLATE "{urlsplit(template).path[1:]}"'
    asyncio.run(_execute(server_dsn, f'CREATE DATABASE "{name}"{copied}'))
    try:
        if template is None:
            asyncio.run(schema.upgrade(dsn))
        # The next run starts with its dirty pages written, not in the middle of this one's checkpoint.
        asyncio.run(_execute(server_dsn, "CHECKPOINT"))
        yield dsn
    finally:
        asyncio.run(_execute(server_dsn, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def durability(dsn: str) -> dict[str, str]:
    """What the server promises at COMMIT."""

    async def ask() -> dict[str, str]:
        connection = await asyncpg.connect(dsn)
        try:
            return {name: str(await connection.fetchval(f"SHOW {name}")) for name in SETTINGS}
        finally:
            await connection.close()

    return asyncio.run(ask())


def rows(dsn: str) -> int:
    """Events in the lake. Raises when the log and the ids differ."""

    async def ask() -> tuple[int, int]:
        connection = await asyncpg.connect(dsn)
        try:
            ids = await connection.fetchval("SELECT count(*) FROM lake.event_ids")
            logs = await connection.fetchval("SELECT count(*) FROM lake.whatsapp_event_logs")
            return int(ids), int(logs)
        finally:
            await connection.close()

    ids, logs = asyncio.run(ask())
    if ids != logs:
        raise RuntimeError(f"{ids} event ids, {logs} logged events")
    return logs
