"""A running inbox in the test's own loop, and rules whose effects can be counted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg

from contracts.inbox import LoggedEvent, Rule, Transaction
from ingest.inbox.config import InboxConfig
from ingest.inbox.consumer import Consumer
from ingest.inbox.runner import Runner

RAN = "CREATE TABLE ran (seq bigint)"
"""A plain counter: an event that ran twice has two rows."""
COUNT = "INSERT INTO ran SELECT unnest($1::bigint[])"
DEADLINE_S = 30.0


async def count(transaction: Transaction, effects: Sequence[int]) -> None:
    """The effect of ``counting``."""
    await transaction.execute(COUNT, effects)


def counting(name: str = "counting", kinds: frozenset[str] | None = None) -> Rule[int]:
    """A rule that writes a row into ``ran`` for each event it sees."""
    return Rule(name=name, decide=lambda event: (event.seq,), apply=count, kinds=kinds, reads_payload=False)


def poisoned(payload: bytes = b'{"poison": true}') -> Rule[int]:
    """A rule that fails on events of that payload."""

    def decide(event: LoggedEvent) -> Sequence[int]:
        if event.payload == payload:
            raise KeyError("what a person wrote")
        return ()

    return Rule(name="poisoned", decide=decide, apply=count)


def consumer(*rules: Rule[Any], name: str = "rules") -> Consumer:
    return Consumer(name=name, rules=rules)


@contextlib.asynccontextmanager
async def running(dsn: str, *consumers: Consumer, **limits: Any) -> AsyncIterator[Runner]:
    """The runner, until the block ends; it must stop by itself."""
    usual: dict[str, Any] = {"poll_ms": 5, "reconnect_pause_s": 0.05, "watch_every_s": 0.1}
    runner = Runner(InboxConfig(dsn=dsn, **usual | limits), consumers)
    stop = asyncio.Event()
    task = asyncio.create_task(runner.run(stop))
    try:
        yield runner
    finally:
        stop.set()
        async with asyncio.timeout(DEADLINE_S):
            await task


async def until(connection: asyncpg.Connection[Any], query: str, wanted: object, *arguments: object) -> None:
    """Waits until ``query`` gives ``wanted``."""
    found: object = None
    try:
        async with asyncio.timeout(DEADLINE_S):
            while (found := await connection.fetchval(query, *arguments)) != wanted:
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{query}: {found!r}, not {wanted!r}") from None


HOW_MANY = "SELECT count(*) FROM ran"
DOUBLES = "SELECT count(*) - count(DISTINCT seq) FROM ran"
