"""An event that fails is parked, tried again and in the end dead; a rule that fails too much is paused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest

from contracts.inbox import LoggedEvent, Rule, Transaction
from ingest.inbox.failing import StormError, StormGuard, error_text, retry_after_s
from tests.ingest.inbox.log import write
from tests.ingest.inbox.running import (
    DEADLINE_S,
    DOUBLES,
    HOW_MANY,
    RAN,
    consumer,
    count,
    counting,
    poisoned,
    running,
    until,
)

POISON = '{"poison": true}'
STATES = "SELECT string_agg(state || ' ' || attempts, ', ' ORDER BY seq) FROM lake.inbox_failures"
PAUSED = "SELECT paused_reason FROM lake.inbox_consumers WHERE name = 'rules'"

FULL = """
CREATE FUNCTION is_full() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER is_full BEFORE INSERT ON lake.inbox_failures FOR EACH ROW EXECUTE FUNCTION is_full();
"""


@contextlib.asynccontextmanager
async def lake(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(dsn)
    await connection.execute(RAN)
    try:
        yield connection
    finally:
        await connection.close()


async def test_a_poisoned_event_is_parked_and_its_shard_goes_on(dsn: str) -> None:
    async with lake(dsn) as connection:
        await write(connection, "{}", POISON, "{}")
        async with running(dsn, consumer(counting(), poisoned())):
            await until(connection, HOW_MANY, 2)
            await until(connection, STATES, "FAILED 1")
        row = await connection.fetchrow("SELECT * FROM lake.inbox WHERE state = 'FAILED'")
        assert row["last_error"].startswith("poisoned: KeyError at running.py:")
        assert "person" not in row["last_error"]
        assert row["processed_at"] is None
        assert await connection.fetchval("SELECT array_agg(seq ORDER BY seq) FROM ran") == [1, 3]


async def test_it_climbs_the_ladder_and_dies(dsn: str) -> None:
    async with lake(dsn) as connection:
        await write(connection, POISON)
        async with running(dsn, consumer(poisoned()), retry_s=(0.001, 0.001)):
            await until(connection, STATES, "DEAD 3")
        assert await connection.fetchval("SELECT due_at FROM lake.inbox_failures") is None
        assert await connection.fetchval("SELECT state FROM lake.inbox") == "DEAD"


async def test_once_it_succeeds_every_rule_has_run_once(dsn: str) -> None:
    """The event is the unit: a rule that succeeded beside the failing one is not run twice."""
    broken = [True]

    def decide(event: LoggedEvent) -> Sequence[int]:
        if broken[0]:
            raise ValueError
        return ()

    late = Rule(name="late", decide=decide, apply=count)
    async with lake(dsn) as connection:
        await write(connection, "{}")
        async with running(dsn, consumer(counting(), late), retry_s=(0.5,) * 9):
            await until(connection, STATES, "FAILED 1")
            assert await connection.fetchval(HOW_MANY) == 0
            broken[0] = False
            await until(connection, HOW_MANY, 1)
        assert await connection.fetchval(STATES) is None
        assert await connection.fetchval("SELECT state FROM lake.inbox") == "PROCESSED"


async def test_effects_that_cannot_be_written_are_bisected_down_to_their_event(dsn: str) -> None:
    applied: list[int] = []

    async def divide(transaction: Transaction, effects: Sequence[int]) -> None:
        applied.append(len(effects))
        await transaction.execute(
            "INSERT INTO ran SELECT n + 0 / (n - 7) FROM unnest($1::bigint[]) n", effects
        )

    rule = Rule(name="divide", decide=lambda event: (event.seq,), apply=divide)
    async with lake(dsn) as connection:
        await write(connection, *["{}"] * 64)
        async with running(dsn, consumer(counting(), rule)):
            await until(connection, HOW_MANY, 2 * 63)
            await until(connection, STATES, "FAILED 1")
        assert await connection.fetchval("SELECT seq FROM lake.inbox_failures") == 7
        error = await connection.fetchval("SELECT last_error FROM lake.inbox_failures")
        assert error.startswith("divide: DivisionByZeroError (SQLSTATE 22012)")
    assert applied[:2] == [64, 64], "first as a whole, and only then in halves"
    assert len(applied) <= 2 + 2 * 6


async def test_an_outage_parks_nothing(dsn: str) -> None:
    calls = [0]

    async def locked(transaction: Transaction, effects: Sequence[int]) -> None:
        calls[0] += 1
        if calls[0] < 4:
            raise asyncpg.DeadlockDetectedError
        await count(transaction, effects)

    rule = Rule(name="locked", decide=lambda event: (event.seq,), apply=locked)
    async with lake(dsn) as connection:
        await write(connection, *["{}"] * 10)
        async with running(dsn, consumer(rule)):
            await until(connection, HOW_MANY, 10)
        assert await connection.fetchval(STATES) is None


@pytest.mark.parametrize("fails_in", ["decide", "apply"])
async def test_a_broken_rule_pauses_its_consumer_and_parks_nothing(dsn: str, fails_in: str) -> None:
    def decide(event: LoggedEvent) -> Sequence[int]:
        if fails_in == "decide":
            raise KeyError
        return (event.seq,)

    async def apply(_transaction: Transaction, _effects: Sequence[int]) -> None:
        raise KeyError

    rule = Rule(name="broken", decide=decide, apply=apply)
    async with lake(dsn) as connection:
        await write(connection, *["{}"] * 200)
        async with running(dsn, consumer(rule), consumer(counting(), name="others")):
            await until(connection, HOW_MANY, 200)
            await until(connection, f"SELECT ({PAUSED}) IS NOT NULL", True)
        assert await connection.fetchval(STATES) is None
        assert await connection.fetchval("SELECT count(*) FROM lake.inbox WHERE state = 'PROCESSED'") == 200


async def test_a_run_of_failures_pauses_also_over_small_batches(dsn: str) -> None:
    async with lake(dsn) as connection:
        for _ in range(30):
            await write(connection, POISON)
        async with running(dsn, consumer(poisoned()), batch_events=1, connections=1, failing_in_row_max=5):
            await until(connection, PAUSED, "5 events in a row failed")
        assert await connection.fetchval(STATES) == ", ".join(["FAILED 1"] * 4)


async def test_what_postgres_cannot_write_down_makes_no_run_of_failures(dsn: str) -> None:
    """One event, whose batch is rolled back again and again: its disk is full."""
    tried: list[int] = []

    def decide(event: LoggedEvent) -> Sequence[int]:
        tried.append(event.seq)
        raise KeyError

    async with lake(dsn) as connection:
        await connection.execute(FULL)
        await write(connection, POISON)
        rule = Rule(name="poisoned", decide=decide, apply=count)
        async with running(dsn, consumer(rule), failing_in_row_max=3):
            await reached(tried, 5)
            await connection.execute("DROP TRIGGER is_full ON lake.inbox_failures")
            await until(connection, STATES, "FAILED 1")
        assert await connection.fetchval(PAUSED) is None


async def reached(tried: Sequence[int], times: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while len(tried) < times:
            await asyncio.sleep(0.01)


async def test_an_event_that_left_the_log_is_dead(dsn: str) -> None:
    async with lake(dsn) as connection:
        await write(connection, POISON)
        async with running(dsn, consumer(poisoned())):
            await until(connection, STATES, "FAILED 1")
            await connection.execute("DELETE FROM lake.whatsapp_event_logs")
            await connection.execute("UPDATE lake.inbox_failures SET due_at = now()")
            await until(connection, STATES, "DEAD 1")
        assert await connection.fetchval(DOUBLES) == 0


def test_the_ladder_ends() -> None:
    assert [retry_after_s(attempts, (5, 30)) for attempts in (1, 2, 3)] == [5, 30, None]


def test_an_error_tells_no_content() -> None:
    told = error_text("rule", ValueError("what a person wrote"))
    assert told == "rule: ValueError"


class TestGuard:
    """5 % of a batch, or a run."""

    guard = staticmethod(lambda: StormGuard(share_max=0.05, share_of_min=100, in_row_max=20))

    def test_a_share_of_a_large_batch(self) -> None:
        spread = range(0, 1000, 20)
        self.guard().check(range(1000), frozenset(spread))
        with pytest.raises(StormError, match="51 of 1000"):
            self.guard().check(range(1000), frozenset([*spread, 999]))

    def test_a_small_batch_has_no_share(self) -> None:
        self.guard().check(range(10), frozenset(range(10)))

    def test_a_run_over_batches(self) -> None:
        guard = self.guard()
        guard.check(range(10), frozenset(range(10)))
        guard.take(range(10), frozenset(range(10)))
        with pytest.raises(StormError, match="20 events in a row"):
            guard.check(range(10), frozenset(range(10)))
        guard.check(range(10), frozenset(range(10)))

    def test_a_batch_that_was_rolled_back_does_not_count(self) -> None:
        guard = self.guard()
        for _ in range(5):
            guard.check(range(10), frozenset(range(10)))

    def test_a_batch_without_events_breaks_no_run(self) -> None:
        guard = self.guard()
        guard.take(range(10), frozenset(range(10)))
        guard.take((), frozenset())
        with pytest.raises(StormError, match="20 events in a row"):
            guard.check(range(10), frozenset(range(10)))

    def test_a_success_breaks_the_run(self) -> None:
        guard = self.guard()
        for _ in range(5):
            guard.check(range(10), frozenset(range(9)))
            guard.take(range(10), frozenset(range(9)))
