"""Every copy that was answered is counted; an event is one row and one run of its rules all the same."""

from __future__ import annotations

import asyncio
import uuid

import asyncpg

from tests.ingest.backend import an_id, backend, event
from tests.ingest.inbox.running import HOW_MANY, RAN, consumer, counting, running, until

SIGHTINGS = "SELECT seen_count FROM lake.sightings WHERE event_id = $1"


async def test_twenty_copies_at_once_are_one_row_one_run_and_twenty_sightings(dsn: str) -> None:
    event_id, body = an_id(), event(kind="message")
    connection = await asyncpg.connect(dsn)
    await connection.execute(RAN)
    async with backend(dsn) as b, running(dsn, consumer(counting())):
        answers = await asyncio.gather(*(b.post(event_id, body) for _ in range(20)))
        assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
        await until(connection, HOW_MANY, 1)
        assert await b.count() == 1
        assert await connection.fetchval(SIGHTINGS, uuid.UUID(event_id)) == 20
        assert (await b.post(event_id, body)).status_code == 200
        row = await connection.fetchrow("SELECT * FROM lake.inbox")
        assert (row["seen_count"], row["state"]) == (21, "PROCESSED")
        assert row["last_seen_at"] > row["first_seen_at"]
        assert await connection.fetchval(HOW_MANY) == 1
    await connection.close()


async def test_an_event_that_came_once_has_no_row_and_counts_one(dsn: str) -> None:
    async with backend(dsn) as b:
        await b.post(an_id(), event())
        assert await b.fetch("SELECT 1 FROM lake.sightings") == []
        (row,) = await b.fetch(
            "SELECT seen_count, state, first_seen_at = last_seen_at AS same FROM lake.inbox"
        )
        assert row == {"seen_count": 1, "state": "NEW", "same": True}


async def test_copies_within_a_batch_and_with_other_content_count_too(dsn: str) -> None:
    event_id = an_id()
    async with backend(dsn) as b:
        digests = ("aa" * 16, "bb" * 16, "bb" * 16, None)
        answer = await b.post_batch(*(event(event_id=event_id, digest=digest) for digest in digests))
        assert answer.status_code == 200
        (row,) = await b.fetch("SELECT seen_count FROM lake.sightings")
        assert row["seen_count"] == 4
        (conflict,) = await b.fetch("SELECT seen_count FROM lake.conflicts")
        assert conflict["seen_count"] == 2
