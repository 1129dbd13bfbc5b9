"""What an operator can do: see the lag, try dead events again, replay, pause, resume; and what alerts say."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from contracts.inbox import LoggedEvent, Rule, Transaction
from ingest.inbox import operating
from ingest.inbox.config import InboxConfig
from ingest.inbox.statements import ADD_CONSUMERS
from tests.ingest.backend import Backend, backend
from tests.ingest.inbox.log import write
from tests.ingest.inbox.running import DOUBLES, HOW_MANY, RAN, consumer, count, counting, running, until
from tests.ingest.test_heartbeat import look

STATES = "SELECT string_agg(state, ' ' ORDER BY seq) FROM lake.inbox_failures"


@contextlib.asynccontextmanager
async def lake(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(dsn)
    await connection.execute(RAN)
    try:
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def lake_again(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


class Fragile:
    """A rule that counts, and fails on every event while it is broken."""

    def __init__(self) -> None:
        self.is_broken = True
        self.rule = Rule(name="fragile", decide=self._decide, apply=count)

    def _decide(self, event: LoggedEvent) -> Sequence[int]:
        if self.is_broken:
            raise ValueError
        return (event.seq,)


async def test_dead_events_are_tried_again_one_or_all(dsn: str) -> None:
    fragile = Fragile()
    async with lake(dsn) as connection:
        await write(connection, "{}", "{}")
        async with running(dsn, consumer(fragile.rule), retry_s=(0.001,)):
            await until(connection, STATES, "DEAD DEAD")
            found = await operating.failures(connection, "rules", 10)
            assert [(one.attempts, one.state) for one in found] == [(2, "DEAD")] * 2
            fragile.is_broken = False
            assert await operating.revive(connection, "rules", [found[0].event_id]) == 1
            await until(connection, HOW_MANY, 1)
            await until(connection, STATES, "DEAD")
            assert await operating.revive(connection, "rules", None) == 1
            await until(connection, HOW_MANY, 2)
        assert await operating.failures(connection, None, 10) == []
        with pytest.raises(operating.UnknownConsumerError, match="rules"):
            await operating.revive(connection, "nobody", None)


async def test_a_consumer_is_forgotten_when_it_is_paused_and_leaves_nothing(dsn: str) -> None:
    async with lake(dsn) as connection:
        await write(connection, "{}", "{}")
        one, other = consumer(Fragile().rule), consumer(counting(), name="other")
        async with running(dsn, one, other, retry_s=(0.001,)) as runner:
            await until(connection, STATES, "DEAD DEAD")
            assert not await operating.forget(connection, "rules")
            assert runner.is_ready
            await operating.pause(connection, "rules", "it is removed")
            assert await operating.forget(connection, "rules")
            assert [status.name for status in await operating.statuses(connection)] == ["other"]
            for table in ("cursors", "failures", "progress"):
                left = f"SELECT count(*) FROM lake.inbox_{table} WHERE consumer = 'rules'"
                assert await connection.fetchval(left) == 0, table
            await write(connection, "{}")
            await until(connection, HOW_MANY, 3)
            async with asyncio.timeout(10):
                while runner.is_ready:  # it says that something does not run here any more
                    await asyncio.sleep(0.01)
            await end_sessions(connection)
            await write(connection, "{}")
            await until(connection, HOW_MANY, 4)
            names = [status.name for status in await operating.statuses(connection)]
            assert names == ["other"], "it does not come back with another connection, on the whole log"


async def test_what_a_batch_parks_while_its_consumer_is_forgotten_goes_too(dsn: str) -> None:
    """The batch holds its cursors, so its end is waited for."""
    applying, go_on = asyncio.Event(), asyncio.Event()

    def decide(event: LoggedEvent) -> Sequence[int]:
        if event.kind == "broken":
            raise ValueError
        return (event.seq,)

    async def apply(_transaction: Transaction, _effects: Sequence[int]) -> None:
        applying.set()
        await go_on.wait()

    async with lake(dsn) as connection, lake_again(dsn) as other:
        await write(connection, "{}", shard=1)
        await write(connection, "{}", kind="broken", shard=1)
        async with running(dsn, consumer(Rule(name="slow", decide=decide, apply=apply))):
            await applying.wait()
            await operating.pause(other, "rules", "it is removed")
            forgetting = asyncio.create_task(operating.forget(other, "rules"))
            await waits_for_a_lock(connection)
            go_on.set()
            assert await forgetting
            left = "SELECT count(*) FROM lake.inbox_failures"
            assert await connection.fetchval(left) == 0


async def waits_for_a_lock(connection: asyncpg.Connection[Any]) -> None:
    waiting = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    await until(connection, f"SELECT count(*) {waiting}", 1)


async def end_sessions(connection: asyncpg.Connection[Any]) -> None:
    """As a restart of the database does."""
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


async def test_a_replay_runs_everything_since_a_moment_again_and_only_that(dsn: str) -> None:
    fragile = Fragile()
    async with lake(dsn) as connection:
        fragile.is_broken = False
        await write(connection, *["{}"] * 5)
        now = await connection.fetchval("SELECT clock_timestamp()")
        async with running(dsn, consumer(fragile.rule), consumer(counting(), name="others")):
            for shard in range(10):
                await write(connection, "{}", shard=shard)
            await until(connection, HOW_MANY, 30)
            fragile.is_broken = True
            await write(connection, "{}")
            await until(connection, STATES, "FAILED")
            fragile.is_broken = False
            assert await operating.replay(connection, "rules", now) == 6
            await until(connection, HOW_MANY, 31 + 11)
        assert await connection.fetchval(STATES) is None, "what is read again is not parked as well"
        assert await connection.fetchval(DOUBLES) == 16 + 10
        assert await operating.replay(connection, "rules", now.replace(year=2999)) is None


async def test_a_replay_may_look_long_for_where_to_begin(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating, "NO_LIMITS", InboxConfig(dsn="", statement_s_max=1))
    late = (
        "SELECT count(*) FROM pg_stat_activity WHERE now() - query_start > '2 s' AND wait_event_type = 'Lock'"
    )
    async with lake(dsn) as connection, lake_again(dsn) as operator, lake_again(dsn) as watching:
        (seq,) = await write(connection, "{}")
        await connection.fetch(ADD_CONSUMERS, ["rules"])
        async with connection.transaction():
            await connection.execute("LOCK TABLE lake.whatsapp_event_logs IN ACCESS EXCLUSIVE MODE")
            begun = asyncio.create_task(operating.replay(operator, "rules", datetime(2000, 1, 1, tzinfo=UTC)))
            while not begun.done() and not await watching.fetchval(late):
                await asyncio.sleep(0.05)
        assert await begun == seq


async def test_a_paused_consumer_waits_and_goes_on_where_it_was(dsn: str) -> None:
    async with lake(dsn) as connection:
        async with running(dsn, consumer(counting()), consumer(counting(), name="others")):
            await until(connection, "SELECT count(*) FROM lake.inbox_cursors", 128)
            assert await operating.pause(connection, "rules", "a repair")
            assert not await operating.pause(connection, "rules", "again")
            await write(connection, *["{}"] * 10)
            await until(connection, HOW_MANY, 10)
            others, rules = await operating.statuses(connection)
            assert (rules.paused_reason, rules.lag.unread, others.lag.unread) == ("a repair", 10, 0)
            assert await operating.resume(connection, "rules", is_parking=False)
            await until(connection, HOW_MANY, 20)
        assert not await operating.resume(connection, "rules", is_parking=False)


async def test_resume_may_set_aside_all_that_fails_now_but_not_what_comes(dsn: str) -> None:
    paused = "SELECT paused_reason FROM lake.inbox_consumers"
    async with lake(dsn) as connection:
        await write(connection, *["{}"] * 50)
        async with running(dsn, consumer(Fragile().rule)):
            await until(connection, paused, "50 events in a row failed")
            await operating.resume(connection, "rules", is_parking=False)
            await until(connection, paused, "50 events in a row failed")
            await operating.resume(connection, "rules", is_parking=True)
            await until(connection, "SELECT count(*) FROM lake.inbox_failures", 50)
            assert await connection.fetchval(paused) is None
            await write(connection, *["{}"] * 30)
            await until(connection, paused, "30 events in a row failed")


async def test_resume_does_not_mind_another_default_isolation(dsn: str) -> None:
    async with lake(dsn) as connection:
        await connection.fetch(ADD_CONSUMERS, ["rules"])
        await operating.pause(connection, "rules", "a person")
        await connection.execute("SET default_transaction_isolation = serializable")
        assert await operating.resume(connection, "rules", is_parking=True)


async def test_resume_sets_aside_what_cannot_be_applied_too(dsn: str) -> None:
    async def halve(transaction: Transaction, effects: Sequence[int]) -> None:
        if any(seq % 2 for seq in effects):
            raise ValueError
        await count(transaction, effects)

    paused = "SELECT paused_reason IS NOT NULL FROM lake.inbox_consumers"
    rule = Rule(name="halve", decide=lambda event: (event.seq,), apply=halve)
    async with lake(dsn) as connection:
        await write(connection, *["{}"] * 200)
        async with running(dsn, consumer(rule)):
            await until(connection, paused, True)
            await operating.resume(connection, "rules", is_parking=True)
            await until(connection, "SELECT count(*) FROM lake.inbox_failures", 100)
            await until(connection, HOW_MANY, 100)
            assert not await connection.fetchval(paused)
            await write(connection, *["{}"] * 200)
            await until(connection, paused, True)


async def alerts(b: Backend) -> list[str]:
    """The open ones, after a round of the watch."""
    return [f"{name} {subject}" for name, subject, is_open, _repeated in await look(b) if is_open]


async def test_alerts_of_a_consumer_that_is_behind_paused_or_has_dead_events(dsn: str) -> None:
    fragile = Fragile()
    async with lake(dsn) as connection, backend(dsn) as b:
        await write(connection, "{}")
        async with running(dsn, consumer(fragile.rule), retry_s=(0.001,)):
            await until(connection, STATES, "DEAD")
        assert await alerts(b) == ["inbox.dead rules"]
        await write(connection, "{}")
        assert await alerts(b) == ["inbox.dead rules"]
        await connection.execute(
            "UPDATE lake.whatsapp_event_logs SET received_at = now() - interval '1 hour'"
        )
        assert await alerts(b) == ["inbox.dead rules", "inbox.behind rules"]
        await operating.pause(connection, "rules", "a repair")
        assert await alerts(b) == ["inbox.dead rules", "inbox.paused rules"]
        fragile.is_broken = False
        await operating.resume(connection, "rules", is_parking=False)
        async with running(dsn, consumer(fragile.rule)):
            await operating.revive(connection, "rules", None)
            await until(connection, HOW_MANY, 2)
            await until(connection, STATES, None)
        assert await alerts(b) == []


async def test_an_ingest_transaction_that_stays_open_is_an_alert_when_numbers_go_on(dsn: str) -> None:
    async with lake(dsn) as connection, backend(dsn, inbox_stalled_after_s=0.0) as b:
        hanging = await asyncpg.connect(dsn)
        await hanging.execute("BEGIN")
        await hanging.execute("SELECT pg_advisory_xact_lock_shared((24225::bigint << 48) | 0)")
        assert await alerts(b) == [], "no number was drawn after its own"
        await write(connection, "{}")
        await write(connection, "{}")
        assert await alerts(b) == ["inbox.stalled lake"]
        await hanging.close()
        await until(connection, "SELECT lake.horizon()", 2)
        assert await alerts(b) == []


async def test_processed_at_is_sampled_and_old_samples_go(dsn: str) -> None:
    samples = "SELECT count(*) FROM lake.inbox_progress"
    async with lake(dsn) as connection:
        await write(connection, "{}")
        async with running(dsn, consumer(counting())):
            await until(
                connection, "SELECT positions[1] FROM lake.inbox_progress ORDER BY at DESC LIMIT 1", 1
            )
            (first, processed) = await connection.fetchrow(
                "SELECT first_seen_at, processed_at FROM lake.inbox"
            )
            assert first < processed
        kept = await connection.fetchval(samples)
        async with running(dsn, consumer(counting())):
            await until(connection, HOW_MANY, 1)
        assert await connection.fetchval(samples) == kept, "nothing moved"
        async with running(dsn, consumer(counting()), progress_days=1e-6):
            await until(connection, samples, 0)
