"""One event by every door at once is one row and one run of a rule; and one door alone is enough."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncpg
import pytest

from collector.config import Limits
from tests.collector.running import Running, collector_config, eventually, limits, message, running
from tests.ingest.backend import SECRET, Backend, backend
from tests.ingest.gateways import direct_to
from tests.ingest.inbox.running import HOW_MANY, RAN, consumer, counting, until
from tests.ingest.inbox.running import running as inbox
from tests.support.metrics import value
from tests.support.rabbit import Rabbit

WEBHOOKS, PUBLISHED, DIRECT = 5, 2, 6
"""Copies: so many webhooks to each collector, so many messages to the queues of both, so many directly."""
COPIES = 2 * WEBHOOKS + 2 * PUBLISHED + DIRECT
MESSAGES = 40


class Wall:
    """The clock on the wall, until somebody sets it forward."""

    ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


@contextlib.asynccontextmanager
async def collecting(
    b: Backend, rabbit: Rabbit, folder: Path, name: str, wall_s: Callable[[], float] = time.time
) -> AsyncIterator[Running]:
    """A collector of that name with both doors open, on a queue of its own."""
    queue = rabbit.own_queue(name)
    config = collector_config(
        folder / name,
        f"http://127.0.0.1:{b.port}",
        name=name,
        secrets=(SECRET,),
        amqp=(rabbit.config(queue=queue),),
        heartbeat_s=0.2,
        limits=limits(housekeeping_s=0.05),
    )
    async with running(config, wall_s=wall_s) as collector:

        async def consumes() -> bool:
            (broker,) = (await collector.status())["rabbitmq"]
            return bool(broker["consuming"])

        await eventually(consumes, f"{name} consumes")
        yield collector


async def came_in(collector: Running, count: int) -> None:
    """Waits until so many copies were taken, whatever became of them, and nothing waits any more."""

    async def all_are_here() -> bool:
        totals = await collector.totals()
        taken = sum(totals.get(outcome, 0) for outcome in ("stored", "duplicate"))
        assert taken <= count
        return taken == count and (await collector.outbox())["waiting"] == 0

    await eventually(all_are_here, f"{count} copies taken and shipped")


async def test_twenty_copies_by_five_doors_are_one_row_and_one_run(
    dsn: str, rabbit: Rabbit, tmp_path: Path
) -> None:
    body, wall = message(1, rabbit.instance), Wall()
    connection = await asyncpg.connect(dsn)
    await connection.execute(RAN)
    async with (
        backend(dsn) as b,
        inbox(dsn, consumer(counting())),
        collecting(b, rabbit, tmp_path, "edge-1", wall) as one,
        collecting(b, rabbit, tmp_path, "edge-2", wall) as two,
    ):
        direct = await direct_to(b, "evolution")
        webhooks = [c.post("/gateways/evolution", body) for c in (one, two) for _ in range(WEBHOOKS)]
        answers, _ = await asyncio.gather(
            asyncio.gather(*webhooks, *(direct.post(body) for _ in range(DIRECT))),
            rabbit.publish(*[body] * PUBLISHED),
        )
        assert {answer.status_code for answer in answers} == {200}
        for collector in (one, two):
            await came_in(collector, WEBHOOKS + PUBLISHED)
        assert COPIES == 20
        assert await b.count() == 1
        await until(connection, HOW_MANY, 1)
        page = (await b.client.get("/metrics")).text
        reached = sum(
            value(page, "zaplake_ingest_events_total", outcome=outcome) for outcome in ("stored", "duplicate")
        )
        assert reached >= DIRECT + 2  # each collector sends its first copy on
        assert await connection.fetchval("SELECT seen_count FROM lake.sightings") == reached
        assert await b.fetch("SELECT 1 FROM lake.conflicts") == []
        again = await asyncio.gather(
            direct.post(body), *(c.post("/gateways/evolution", body) for c in (one, two))
        )
        assert {answer.status_code for answer in again} == {200}
        assert (await b.count(), await connection.fetchval(HOW_MANY)) == (1, 1)
        wall.ahead_s = 2 * Limits().channel_grace_s  # the copies have had their time
        await until(connection, "SELECT count(*) FROM lake.channel_coverage WHERE kind = 'message'", 2)
        coverage = await b.fetch("""
            SELECT collector, records, "both" FROM lake.channel_coverage
             WHERE kind = 'message' ORDER BY collector
        """)
        assert [tuple(row.values()) for row in coverage] == [("edge-1", 1, 1), ("edge-2", 1, 1)]
    await connection.close()


@pytest.mark.parametrize("doors", [("webhook",), ("rabbitmq",), ("webhook", "rabbitmq")], ids="+".join)
async def test_one_door_alone_is_complete_and_two_double_nothing(
    dsn: str, rabbit: Rabbit, tmp_path: Path, doors: tuple[str, ...]
) -> None:
    bodies = [message(number, rabbit.instance) for number in range(MESSAGES)]
    async with backend(dsn) as b, collecting(b, rabbit, tmp_path, "edge-1") as collector:
        posts = [collector.post("/gateways/evolution", body) for body in bodies if "webhook" in doors]
        published = bodies if "rabbitmq" in doors else []
        await asyncio.gather(*posts, rabbit.publish(*published))
        await came_in(collector, MESSAGES * len(doors))
        rows = await b.events()
        assert sorted(row["payload"]["key"]["id"] for row in rows) == [
            f"3EB0{number:012X}" for number in range(MESSAGES)
        ]
        assert {row["channel"] for row in rows} <= set(doors)
