"""The stores under one suite, and the clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from outbox.clock import ManualClock
from outbox.memory import MemoryStore
from outbox.metering import MeteredStore
from outbox.sqlite import open_sqlite
from outbox.store import Queue
from tests.outbox.postgres import open_queue, use_test_clock
from tests.outbox.records import marked_lost
from tests.support.postgres import PgServer, database_name


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
async def store(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[MeteredStore]:
    """A store that a collector may have."""
    opened: MeteredStore
    if request.param == "memory":
        opened = MemoryStore(clock, folder=tmp_path, mark_lost=marked_lost)
    else:
        opened = await open_sqlite(tmp_path / "outbox", clock, mark_lost=marked_lost)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def engine_dsn(pg_server: PgServer, migrated_template: str) -> Iterator[str]:
    """A migrated database for queues; each test has one of its own."""
    with _clone(pg_server, migrated_template) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def clocked_dsn(pg_server: PgServer, migrated_template: str) -> Iterator[str]:
    """The same, but its engine goes by the clock that a test moves."""
    with _clone(pg_server, migrated_template) as dsn:
        asyncio.run(use_test_clock(dsn))
        yield dsn


@contextmanager
def _clone(server: PgServer, template: str) -> Iterator[str]:
    name = database_name()
    asyncio.run(server.run(f"CREATE DATABASE {name} TEMPLATE {template}"))
    try:
        yield server.dsn_of(name)
    finally:
        asyncio.run(server.run(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path | None:
    """Where the records of a queue lie: nowhere, in a folder, in a database."""
    if request.param == "postgres":
        return str(request.getfixturevalue("clocked_dsn"))
    return tmp_path / "outbox" if request.param == "sqlite" else None


@pytest.fixture
async def queue(place: str | Path | None, clock: ManualClock) -> AsyncIterator[Queue]:
    """Any store of the engine."""
    async with AsyncExitStack() as stack:
        opened: Queue
        if isinstance(place, str):
            opened = await stack.enter_async_context(open_queue(place, clock))
        else:
            opened = MemoryStore(clock) if place is None else await open_sqlite(place, clock)
            stack.push_async_callback(opened.close)
        yield opened
