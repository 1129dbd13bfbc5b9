"""The queues that the inbox is measured beside, PgQueuer (tuned) and procrastinate; their job does nothing.

Both get all their jobs before the clock starts, and the payload that our events have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, TypeAlias

import asyncpg
import procrastinate
from pgqueuer import PgQueuer
from pgqueuer.adapters.drivers.asyncpg import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from procrastinate.types import JSONDict

from bench import requests
from contracts.compact import compact_json

Counted: TypeAlias = Callable[[], int]
"""How many jobs are done so far."""
PREPARED_PER_S_MAX: Final = {"pgqueuer": 30_000, "procrastinate": 1_500}
_STEP: Final = 5_000


@asynccontextmanager
async def pgqueuer(dsn: str, jobs: int) -> AsyncIterator[Counted]:
    """Tuned: a pool of asyncpg, batches of 100."""
    done = 0
    payload = compact_json(requests.element("PEER", 1))
    async with asyncpg.create_pool(dsn, min_size=4, max_size=8) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()
        for start in range(0, jobs, _STEP):
            size = min(_STEP, jobs - start)
            await queries.enqueue(["noop"] * size, [payload] * size, [0] * size)
        await pool.execute("VACUUM ANALYZE")
        queue = PgQueuer(AsyncpgPoolDriver(pool))

        @queue.entrypoint("noop")
        async def noop(_job: Job) -> None:
            nonlocal done
            done += 1

        running = asyncio.create_task(queue.run(batch_size=100, dequeue_timeout=timedelta(seconds=1)))
        try:
            yield lambda: done
        finally:
            queue.shutdown.set()
            await running


@asynccontextmanager
async def procrastinating(dsn: str, jobs: int) -> AsyncIterator[Counted]:
    """Its worker with 20 jobs at once."""
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    done = 0
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))
    payload = compact_json(requests.element("PEER", 1)).decode()

    @app.task(name="noop")
    async def noop(**_payload: Any) -> None:
        nonlocal done
        done += 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, jobs, _STEP):
            step: list[JSONDict] = [{"payload": payload}] * min(_STEP, jobs - start)
            await noop.batch_defer_async(*step)
        running = asyncio.create_task(
            app.run_worker_async(concurrency=20, install_signal_handlers=False, listen_notify=False)
        )
        try:
            yield lambda: done
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
