"""Fixtures that every room's tests may use: a real Postgres and a fresh, migrated database a test, a seed.

After the tests the disasters among them are printed as one table.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from hypothesis import settings

from ingest.schema import upgrade
from tests.support.postgres import PgServer, database_name, fresh_database, postgres_server
from tests.support.rabbit import Rabbit
from tests.support.rabbitmq import Broker, NoBroker, broker_of_our_own, no_broker
from tests.support.score import PROPERTY, Score, table

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


@pytest.fixture(scope="session")
def own_broker() -> Iterator[Broker]:
    """A RabbitMQ that may be stopped; whoever does starts it again."""
    try:
        with broker_of_our_own() as broker:
            yield broker
    except NoBroker as error:
        no_broker(str(error))


@pytest.fixture(scope="session")
def amqp_url(request: pytest.FixtureRequest) -> str:
    """AMQP_URL's broker, else our own."""
    given = os.environ.get("AMQP_URL")
    if given:
        return given
    broker: Broker = request.getfixturevalue("own_broker")
    return broker.url


@pytest.fixture
async def rabbit(amqp_url: str) -> AsyncIterator[Rabbit]:
    """Names of this test's own in that broker; deleted at the end."""
    async with Rabbit(amqp_url) as opened:
        yield opened


@pytest.fixture
async def own_rabbit(own_broker: Broker) -> AsyncIterator[Rabbit]:
    """The same in the broker that may be stopped."""
    async with Rabbit(own_broker.url) as opened:
        yield opened


@pytest.fixture
def seed() -> int:
    """ZAPLAKE_SEED, which repeats a run, or a new one."""
    return int(os.environ.get("ZAPLAKE_SEED") or random.SystemRandom().getrandbits(32))


@pytest.fixture
def score(record_property: Callable[[str, object], None]) -> Callable[[Score], None]:
    """Takes the test's line of the table."""
    return lambda line: record_property(PROPERTY, line.as_property())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
    ]
    lines = table(
        (Score(**value), report.duration)
        for report in reports
        for name, value in report.user_properties
        if name == PROPERTY and isinstance(value, dict)
    )
    if lines:
        terminalreporter.section("disasters")
        for line in lines:
            terminalreporter.write_line(line)
