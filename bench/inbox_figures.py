"""No-op rules a second: ours, ours beside an analyst, PgQueuer, procrastinate, on the same server.

``python -m bench inbox --seconds 60 --runs 1`` is the long form, in windows of ten seconds; decay is printed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

import asyncpg
import uvloop

from bench import inbox_peers, postgres, requests
from bench.harness import Line, Options, WrongCountError, in_turn, say
from bench.inbox_peers import Counted
from contracts.compact import compact_json
from contracts.inbox import LoggedEvent, Rule, Transaction
from ingest.inbox import operating
from ingest.inbox.config import InboxConfig
from ingest.inbox.consumer import Consumer
from ingest.inbox.runner import Runner
from zaplake.logs import configure
from zaplake.settings import LogSettings

EVENTS: Final = 1_250_000
"""In the log; when they are read, the cursors go back to the beginning: the runner sees it a second later."""
WINDOW_S: Final = 10.0
WARM_S: Final = 1.0
"""Plans and caches of all of them are warm before the clock starts."""
_FILL: Final = """
INSERT INTO lake.whatsapp_event_logs (
    event_id, digest, type, chat_jid, payload, shard, gateway, instance, scope, channel, kind, occurred_at,
    occurred_from, captured_at, collector)
SELECT gen_random_uuid(), '\\x00112233445566778899aabbccddeeff', 'messages.upsert',
       '5511900000001@s.whatsapp.net', $1::jsonb, n % 64, 'evolution', 'bench', 'evolution/bench', 'webhook',
       'message', now(), 'message', now(), 'bench'
  FROM generate_series(1, $2::integer) n
"""


async def _apply(_transaction: Transaction, _effects: Sequence[object]) -> None:
    raise AssertionError("a no-op rule has no effects")


def _nothing(_event: LoggedEvent) -> Sequence[object]:
    return ()


NOOP: Final = Consumer(name="noop", rules=[Rule(name="noop", decide=_nothing, apply=_apply)])


async def _fill(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(_FILL, compact_json(requests.element("INBOX", 1)).decode(), EVENTS)
    await connection.execute("VACUUM ANALYZE lake.whatsapp_event_logs")
    await connection.close()


@contextlib.asynccontextmanager
async def _ours(dsn: str, events: int) -> AsyncIterator[Counted]:
    """The runner over a log of ``events`` events, again and again; every event with its payload."""
    connection = await asyncpg.connect(dsn)
    first = await connection.fetchval("SELECT min(received_at) FROM lake.whatsapp_event_logs")
    await connection.execute("CHECKPOINT")
    runner, stop = Runner(InboxConfig(dsn=dsn), [NOOP]), asyncio.Event()

    def count() -> int:
        labels = {"consumer": NOOP.name, "outcome": "processed"}
        return int(runner.metrics.registry.get_sample_value("zaplake_inbox_events_total", labels) or 0)

    async def rewind() -> None:
        rounds = 1
        while True:
            await asyncio.sleep(0.02)
            if count() > rounds * events:
                raise WrongCountError(f"{count()} events were run in {rounds} rounds of {events}")
            if count() == rounds * events:
                await operating.replay(connection, NOOP.name, first)
                rounds += 1

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runner.run(stop))
        rewinding = tasks.create_task(rewind())
        yield count
        rewinding.cancel()
        stop.set()
    await connection.close()


async def _windows(opened: AbstractAsyncContextManager[Counted], seconds: float, name: str) -> float:
    """Jobs a second over all windows; says each, and the last one over the first."""
    count_windows = max(2, round(seconds / WINDOW_S))
    rates = []
    async with opened as count:
        loop = asyncio.get_running_loop()
        while not count():
            await asyncio.sleep(0.01)
        await asyncio.sleep(WARM_S)
        for _ in range(count_windows):
            before, began = count(), loop.time()
            await asyncio.sleep(seconds / count_windows)
            rates.append((count() - before) / (loop.time() - began))
    if not all(rates):
        raise WrongCountError(f"{name}: the jobs did not last: {rates}")
    told = " ".join(f"{rate:,.0f}" for rate in rates)
    say(f"  # {name}: {told} a second, decay {rates[-1] / rates[0]:.2f}")
    return sum(rates) / len(rates)


@contextlib.asynccontextmanager
async def _analyst(dsn: str) -> AsyncIterator[None]:
    """Somebody with a report: one snapshot of the lake for the whole run."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.fetchval("SELECT count(*) FROM lake.event_ids")
    yield
    await connection.close()


def inbox(server_dsn: str, options: Options) -> list[Line]:
    """No-op rules a second, beside two queues and beside an analyst."""
    configure(LogSettings(level="warning"))

    with postgres.database(server_dsn, "log") as log:
        uvloop.run(_fill(log))
        return _inbox(server_dsn, log, options)


def _inbox(server_dsn: str, log: str, options: Options) -> list[Line]:
    def measure(
        name: str,
        opening: Callable[[str, int], AbstractAsyncContextManager[Counted]],
        jobs: int,
        *,
        template: str | None = None,
        analyst: bool = False,
    ) -> Callable[[str], float]:
        async def run(dsn: str) -> float:
            async with _analyst(dsn) if analyst else contextlib.nullcontext():
                return await _windows(opening(dsn, jobs), options.seconds, name)

        def measured(turn: str) -> float:
            with postgres.database(server_dsn, f"{name.replace(' ', '')}{turn}", template=template) as dsn:
                return uvloop.run(run(dsn))

        return measured

    jobs_s = options.seconds + 2 * WARM_S
    prepared = {name: round(per_s * jobs_s) for name, per_s in inbox_peers.PREPARED_PER_S_MAX.items()}
    mine, watched, pgqueuer, procrastinate = in_turn(
        {
            "inbox: ours": measure("ours", _ours, EVENTS, template=log),
            "inbox: ours beside an analyst": measure(
                "ours beside", _ours, EVENTS, template=log, analyst=True
            ),
            "inbox: pgqueuer": measure("pgqueuer", inbox_peers.pgqueuer, prepared["pgqueuer"]),
            "inbox: procrastinate": measure(
                "procrastinate", inbox_peers.procrastinating, prepared["procrastinate"]
            ),
        },
        options.runs,
    ).values()
    return [
        Line(name="inbox_rules_vs_pgqueuer", ours=mine, reference=pgqueuer, goal=8),
        Line(name="inbox_rules_vs_procrastinate", ours=mine, reference=procrastinate, goal=100),
        Line(name="inbox_rules_beside_an_analyst", ours=watched, reference=mine, goal=0.9),
    ]
