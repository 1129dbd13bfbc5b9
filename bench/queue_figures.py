"""Figures of the engine on Postgres beside PgQueuer: enqueue, and claim and settle, in batches of 100."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable

import asyncpg
import uvloop

from bench import postgres, queues
from bench.harness import Line, Options, expect_rows, in_turn
from bench.queues import Contestant, Open, Prepared
from contracts.compact import compact_json
from outbox.postgres.enqueue import DueRecord

BATCH = 100
CONNECTIONS = 4
BATCHES_PREPARED_PER_S = 500
BACKLOG_PER_S = 5_000
"""Records that wait when claiming begins, a second of the run. What is left at the end does not count."""
BODY = compact_json({"to": "5511900000001", "text": "Bom dia! O pedido saiu hoje cedo e chega amanhã. " * 8})


def queue(server_dsn: str, options: Options) -> list[Line]:
    """The same records, server and number of connections for both."""

    def measured(
        name: str, how: Callable[[Contestant, str, Options], Awaitable[float]], opened: Open
    ) -> Callable[[str], float]:
        def run(number: str) -> float:
            with postgres.database(server_dsn, f"{name}{number}") as dsn:
                return uvloop.run(_in(dsn, how, opened, options))

        return run

    plain, dedupe = queues.pgqueuer(dedupe=False), queues.pgqueuer(dedupe=True)
    ours, bare, checked = in_turn(
        {
            "enqueue: ours": measured("enq_ours", _enqueue, queues.engine),
            "enqueue: PgQueuer, no ids": measured("enq_bare", _enqueue, plain),
            "enqueue: PgQueuer, dedupe keys": measured("enq_keys", _enqueue, dedupe),
        },
        options.runs,
    ).values()
    settled, theirs = in_turn(
        {
            "claim and settle: ours": measured("settle_ours", _claim_and_settle, queues.engine),
            "claim and settle: PgQueuer": measured("settle_bare", _claim_and_settle, plain),
        },
        options.runs,
    ).values()
    return [
        Line(name="engine_postgres_enqueue_vs_pgqueuer", ours=ours, reference=bare, goal=1.0),
        Line(name="engine_postgres_enqueue_vs_pgqueuer_dedupe", ours=ours, reference=checked, goal=1.0),
        Line(name="engine_postgres_claim_and_settle_vs_pgqueuer", ours=settled, reference=theirs, goal=1.0),
    ]


async def _in(
    dsn: str, how: Callable[[Contestant, str, Options], Awaitable[float]], opened: Open, options: Options
) -> float:
    async with opened(dsn, CONNECTIONS) as contestant:
        return await how(contestant, dsn, options)


def _prepared(batches: int) -> list[Prepared]:
    made = []
    for _ in range(batches):
        ids = [str(uuid.uuid4()) for _ in range(BATCH)]
        records = [DueRecord(id=id_, body=BODY) for id_ in ids]
        made.append(Prepared(ids=ids, bodies=[BODY] * BATCH, records=records))
    return made


async def _loaded(work: Callable[[], Awaitable[int]], seconds: float) -> tuple[float, int]:
    """Records a second of several loops at once, until time is up or nothing is left; and how many."""
    done = 0
    started = time.perf_counter()

    async def loop() -> None:
        nonlocal done
        while time.perf_counter() - started < seconds:
            count = await work()
            if not count:
                return
            done += count

    await asyncio.gather(*(loop() for _ in range(CONNECTIONS)))
    return done / (time.perf_counter() - started), done


async def _enqueue(contestant: Contestant, dsn: str, options: Options) -> float:
    batches = iter(_prepared(round(BATCHES_PREPARED_PER_S * options.seconds)))

    async def work() -> int:
        batch = next(batches, None)
        if batch is None:
            return 0
        await contestant.enqueue(batch)
        return BATCH

    rate, done = await _loaded(work, options.seconds)
    expect_rows("enqueue", acknowledged=done, found=await _rows(dsn, contestant))
    return rate


async def _claim_and_settle(contestant: Contestant, dsn: str, options: Options) -> float:
    backlog = round(BACKLOG_PER_S * options.seconds / BATCH)
    for batch in _prepared(backlog):
        await contestant.enqueue(batch)
    # The server knows how full the queue is: a peer must not lose for want of statistics.
    await _execute(dsn, f"VACUUM ANALYZE {', '.join(contestant.tables)}", "CHECKPOINT")
    rate, done = await _loaded(lambda: contestant.claim_and_settle(BATCH), options.seconds)
    expect_rows("settled", acknowledged=backlog * BATCH - done, found=await _rows(dsn, contestant))
    return rate


async def _rows(dsn: str, contestant: Contestant) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval(f"SELECT count(*) FROM {contestant.tables[0]}"))
    finally:
        await connection.close()


async def _execute(dsn: str, *statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()
