"""A rule of the inbox that enqueues: effect, cursor and record are one commit; an event is one record."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from contracts.inbox import LoggedEvent, Rule, Transaction
from ingest.inbox import operating
from outbox.postgres.enqueue import DueRecord, enqueue
from tests.ingest.inbox.log import write
from tests.ingest.inbox.running import consumer, running, until

QUEUE = "forward"
WAITING = "SELECT count(*) FROM engine.records WHERE queue = 'forward'"
PARKED = "SELECT count(*) FROM lake.inbox_failures WHERE state = 'FAILED'"
BROKEN = "broken"


def decide(event: LoggedEvent) -> Sequence[DueRecord]:
    return (DueRecord(id=str(event.event_id), body=event.payload or b"", label=event.kind or ""),)


async def forward(transaction: Transaction, records: Sequence[DueRecord]) -> None:
    """Fails after the records were enqueued: none of them may stay."""
    await enqueue(transaction, QUEUE, records)
    if any(record.label == BROKEN for record in records):
        raise ZeroDivisionError


async def test_each_event_is_one_record_whatever_fails_and_is_repeated(dsn: str) -> None:
    rule = Rule(name="forward", decide=decide, apply=forward)
    connection = await asyncpg.connect(dsn)
    began_at = await connection.fetchval("SELECT clock_timestamp()")
    await write(connection, *['{"n": 1}'] * 60, kind="message")
    await write(connection, "{}", kind=BROKEN)
    await write(connection, *['{"n": 2}'] * 40, kind="message", shard=1)
    async with running(dsn, consumer(rule)):
        await until(connection, WAITING, 100)
        await until(connection, PARKED, 1)
        assert await operating.replay(connection, "rules", began_at) is not None
        await write(connection, "{}", kind="message", shard=0)
        await write(connection, "{}", kind="message", shard=1)
        await until(connection, WAITING, 102)
    assert await connection.fetchval("SELECT count(*) FROM engine.ids WHERE queue = 'forward'") == 102
    await connection.close()
