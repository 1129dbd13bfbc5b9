"""Fixtures that every room's tests may use: a real Postgres and a fresh, migrated database a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import settings

from ingest.schema import upgrade
from tests.support.postgres import PgServer, database_name, fresh_database, postgres_server

# A busy machine is no failure; what must be fast has a test of its own.
settings.register_profile("zaplake", deadline=None)
settings.load_profile("zaplake")


@pytest.fixture(scope="session")
def pg_server() -> Iterator[PgServer]:
    """The session's server."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_template(pg_server: PgServer) -> Iterator[str]:
    """Name of a migrated database that nobody connects to; ``dsn`` clones it."""
    name = database_name()
    asyncio.run(pg_server.run(f"CREATE DATABASE {name}"))
    try:
        asyncio.run(upgrade(pg_server.dsn_of(name)))
        yield name
    finally:
        asyncio.run(pg_server.run(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
async def dsn(pg_server: PgServer, migrated_template: str) -> AsyncIterator[str]:
    """A fresh migrated database of this test's own, dropped afterwards."""
    async with fresh_database(pg_server, migrated_template) as clone:
        yield clone
