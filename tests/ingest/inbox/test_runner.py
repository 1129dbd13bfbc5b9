"""Rules run once an event, in one transaction with the cursor, by any number of processes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest
import structlog

from contracts.inbox import LoggedEvent, Rule, Transaction
from ingest.config import ConfigError
from ingest.inbox import statements
from ingest.inbox.batch import Batches
from ingest.inbox.config import InboxConfig
from ingest.inbox.consumer import Consumer
from ingest.inbox.runner import Runner, reason_of
from ingest.inbox.statements import begin
from tests.ingest.inbox.log import write
from tests.ingest.inbox.running import DEADLINE_S, DOUBLES, HOW_MANY, RAN, consumer, counting, running, until


@contextlib.asynccontextmanager
async def lake(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    async with connected(dsn) as connection:
        await connection.execute(RAN)
        yield connection


@contextlib.asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def fill(connection: asyncpg.Connection[Any], events: int, shards: int = 64, **members: Any) -> None:
    for shard in range(shards):
        await write(connection, *["{}"] * (events // shards), shard=shard, **members)


async def test_two_runners_share_the_shards_and_run_each_event_once(dsn: str) -> None:
    async with lake(dsn) as connection:
        await fill(connection, 6400)
        limits = {"batch_events": 50, "shards_per_batch": 4}
        async with running(dsn, consumer(counting()), **limits), running(dsn, consumer(counting()), **limits):
            await until(connection, HOW_MANY, 6400)
            await fill(connection, 640)
            await until(connection, HOW_MANY, 7040)
        assert await connection.fetchval(DOUBLES) == 0


async def test_each_consumer_has_cursors_of_its_own(dsn: str) -> None:
    async with lake(dsn) as connection:
        await fill(connection, 64)
        async with running(dsn, consumer(counting()), consumer(counting(), name="others")):
            await until(connection, HOW_MANY, 128)
        async with running(dsn, consumer(counting(), name="third")):
            await until(connection, HOW_MANY, 192)


async def test_rules_see_the_kinds_they_ask_for_and_the_cursor_passes_the_others(dsn: str) -> None:
    seen: list[LoggedEvent] = []

    async def nothing(_transaction: Transaction, _effects: Sequence[object]) -> None:
        pass

    def keep(event: LoggedEvent) -> Sequence[object]:
        seen.append(event)
        return ()

    with_payload = Rule(name="a", kinds=frozenset({"chat"}), decide=keep, apply=nothing)
    without = Rule(name="b", kinds=frozenset({"message"}), decide=keep, apply=nothing, reads_payload=False)
    async with lake(dsn) as connection:
        await write(connection, '{"n": 1}', kind="message", chat_jid="one@g.us")
        await write(connection, '{"n": 2}', kind="presence")
        await write(connection, '{"n": 3}', kind=None)
        await write(connection, '{"n": 4}', kind="chat")
        async with running(dsn, consumer(with_payload, without)):
            await until(connection, "SELECT max(position) FROM lake.inbox_cursors", 4)
    assert [(event.seq, event.kind, event.payload) for event in seen] == [
        (1, "message", None),
        (4, "chat", b'{"n": 4}'),
    ]
    assert (seen[0].chat_jid, seen[0].scope) == ("one@g.us", "evolution/shop")
    assert seen[0].received_at.tzinfo is not None


@pytest.mark.parametrize(
    "text", [random.Random(1).randbytes(100_000).hex(), "A" * 200_000], ids=["dense", "compressed"]
)
async def test_large_payloads_come_whole_and_few_at_a_time(dsn: str, text: str) -> None:
    batches: list[int] = []
    seen: list[tuple[int, int]] = []

    def keep(event: LoggedEvent) -> Sequence[int]:
        assert event.payload is not None
        seen.append((event.seq, len(event.payload)))
        return (event.seq,)

    async def note(transaction: Transaction, effects: Sequence[int]) -> None:
        batches.append(len(effects))
        await counting().apply(transaction, effects)

    async with lake(dsn) as connection:
        large = f'{{"large": "{text}"}}'
        await write(connection, "{}", *[large, "{}"] * 10)
        async with running(dsn, consumer(Rule(name="sizes", decide=keep, apply=note))):
            await until(connection, HOW_MANY, 21)
        assert await connection.fetchval(DOUBLES) == 0
    assert [seq for seq, _size in seen] == list(range(1, 22))
    assert [size for _seq, size in seen] == [2, *[len(large), 2] * 10]
    assert batches == [9, 8, 4], "each ends before the fifth large one"


async def test_within_a_shard_the_order_is_that_of_seq(dsn: str) -> None:
    order: list[tuple[int, int]] = []

    def keep(event: LoggedEvent) -> Sequence[int]:
        order.append((event.shard, event.seq))
        return ()

    async with lake(dsn) as connection:
        for _ in range(5):
            await fill(connection, 64 * 3)
        rule = Rule(name="order", decide=keep, apply=counting().apply)
        async with running(dsn, consumer(rule), batch_events=4, shards_per_batch=2):
            await until(
                connection, "SELECT sum(position) FROM lake.inbox_cursors", await last_of_all(connection)
            )
    for shard in range(64):
        seqs = [seq for its_shard, seq in order if its_shard == shard]
        assert seqs == sorted(set(seqs))
        assert len(seqs) == 15


async def last_of_all(connection: asyncpg.Connection[Any]) -> int:
    found = await connection.fetchval(
        "SELECT sum(last) FROM (SELECT max(seq) AS last FROM lake.whatsapp_event_logs GROUP BY shard) s"
    )
    return int(found)


async def test_a_horizon_from_another_server_skips_nothing(dsn: str) -> None:
    """A standby knows the last number and sees nobody's reservation."""
    batches = Batches(consumer(counting()), InboxConfig(dsn=dsn))
    async with lake(dsn) as connection, connected(dsn) as slow:
        await connection.fetch(statements.ADD_CONSUMERS, ["rules"])
        await connection.fetch(statements.ADD_CURSORS, ["rules"], 64)
        await write(connection)
        async with slow.transaction():
            await write(slow)
            await write(connection)
            outcome = await batches.run(connection, range(64), 3)
            assert (outcome.ran, outcome.positions[0]) == (1, 1)
        assert (await batches.run(connection, range(64), 3)).ran == 2
        assert await connection.fetchval("SELECT array_agg(seq ORDER BY seq) FROM ran") == [1, 2, 3]


async def test_a_dead_server_costs_nothing_but_time(dsn: str) -> None:
    """Every connection is cut, again and again, while the rules run."""
    async with lake(dsn) as connection:
        await fill(connection, 3200)
        async with running(dsn, consumer(counting()), batch_events=20, shards_per_batch=1):
            for _ in range(5):
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name LIKE 'zaplake-inbox%' AND datname = current_database()"
                )
                await asyncio.sleep(0.02)
            await until(connection, HOW_MANY, 3200)
        assert await connection.fetchval(DOUBLES) == 0


async def test_who_cannot_look_for_work_is_not_ready(dsn: str) -> None:
    async with lake(dsn) as connection:
        await connection.execute("ALTER FUNCTION lake.horizon() RENAME TO horizon_away")
        with structlog.testing.capture_logs() as logs:
            async with running(dsn, consumer(counting())) as runner, asyncio.timeout(DEADLINE_S):
                while [line.get("task") for line in logs].count("zaplake-inbox-look") < 3:
                    assert not runner.is_ready
                    await asyncio.sleep(0.01)
                await connection.execute("ALTER FUNCTION lake.horizon_away() RENAME TO horizon")
                while not runner.is_ready:
                    await asyncio.sleep(0.01)


@pytest.mark.parametrize("transaction_pooler", [False, True])
async def test_rules_run_where_another_isolation_is_the_default(dsn: str, transaction_pooler: bool) -> None:
    async with lake(dsn) as connection:
        name = await connection.fetchval("SELECT quote_ident(current_database())")
        await connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = serializable")
        await write(connection)
        async with running(dsn, consumer(counting()), transaction_pooler=transaction_pooler):
            await until(connection, HOW_MANY, 1)


async def test_why_another_isolation_is_refused_is_told(dsn: str) -> None:
    async with lake(dsn) as connection:
        await connection.execute("SET default_transaction_isolation = serializable")
        with pytest.raises(asyncpg.InvalidTransactionStateError) as refused:
            await connection.fetchval(statements.HORIZON)
    assert "default_transaction_isolation" in reason_of(refused.value)


async def test_a_stop_ends_the_batch_that_runs_and_begins_no_other(dsn: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(transaction: Transaction, effects: Sequence[int]) -> None:
        begun.set()
        await go_on.wait()
        await counting().apply(transaction, effects)

    rule = Rule(name="slow", decide=lambda event: (event.seq,), apply=slow)
    async with lake(dsn) as connection:
        await fill(connection, 640)
        async with running(dsn, consumer(rule), batch_events=10, shards_per_batch=1, connections=1):
            await begun.wait()
            asyncio.get_running_loop().call_later(0.2, go_on.set)
        assert await connection.fetchval(HOW_MANY) == 10


async def test_a_stop_does_not_wait_for_ever(dsn: str) -> None:
    begun = asyncio.Event()

    async def stuck(_transaction: Transaction, _effects: Sequence[int]) -> None:
        begun.set()
        await asyncio.Event().wait()

    rule = Rule(name="stuck", decide=lambda event: (event.seq,), apply=stuck)
    async with lake(dsn) as connection:
        await fill(connection, 64)
        async with running(dsn, consumer(rule), drain_s_max=0.2, statement_s_max=0.1):
            await begun.wait()
        await until(connection, "SELECT sum(position) FROM lake.inbox_cursors", 0)
        async with running(dsn, consumer(counting())):
            await until(connection, HOW_MANY, 64)


@pytest.mark.parametrize("has_parsed", [False, True], ids=["idle", "between Parse and Bind"])
async def test_a_worker_that_stands_still_loses_its_shards(dsn: str, has_parsed: bool) -> None:
    """The second state is none that Postgres has a timeout for."""
    config = InboxConfig(dsn=dsn, idle_s_max=1)
    async with lake(dsn) as connection:
        async with running(dsn, consumer(counting())):
            await until(connection, "SELECT count(*) FROM lake.inbox_cursors", 64)
        stuck = await asyncpg.connect(dsn)
        await stuck.execute(begin(config))
        assert len(await stuck.fetch(statements.CLAIM, "rules", list(range(64)))) == 64
        if has_parsed:
            await stuck.prepare(statements.SETTLE)
        await fill(connection, 640)
        async with running(dsn, consumer(counting()), idle_s_max=1):
            await until(connection, HOW_MANY, 640)
        stuck.terminate()


async def test_a_bug_of_the_runner_ends_the_process(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.inbox.statements.SETTLE", None)
    async with lake(dsn) as connection:
        await fill(connection, 64)
        runner = Runner(InboxConfig(dsn=dsn), [consumer(counting())])
        with pytest.raises(ExceptionGroup):
            async with asyncio.timeout(20):
                await runner.run(asyncio.Event())
        assert await connection.fetchval(HOW_MANY) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"poll_ms": 0},
        {"batch_events": 0},
        {"idle_s_max": 0.5},
        {"drain_s_max": 10.0},
        {"retry_s": ()},
        {"failing_share_of_min": 1},
    ],
    ids=str,
)
def test_dangerous_limits_are_refused(wrong: dict[str, Any]) -> None:
    InboxConfig(dsn="")
    with pytest.raises(ConfigError):
        InboxConfig(dsn="", **wrong)


def test_a_consumer_has_a_name_that_can_be_typed() -> None:
    with pytest.raises(ConfigError):
        Consumer(name="Two words", rules=())
