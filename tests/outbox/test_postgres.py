"""What only the Postgres store promises: the caller's transaction, priorities, leases that run out, doubt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from outbox.clock import ManualClock, SystemClock
from outbox.postgres.config import OnLapse, PoolConfig, QueueConfig
from outbox.postgres.enqueue import DueRecord, enqueue
from outbox.postgres.pool import open_pool
from outbox.postgres.states import RecordState
from outbox.postgres.store import Lapsed, PostgresStore
from outbox.postgres.upkeep import Upkeep
from outbox.record import PutOutcome, Record
from outbox.store import StoreError, StoreUnavailable
from outbox.verdict import Verdict
from tests.outbox.harness import until
from tests.outbox.postgres import a_queue, open_queue
from tests.outbox.records import MIB, claim, end_all, ended, ids, later, put_ids
from tests.support.missing import not_installed
from tests.support.pgbouncer import PGBOUNCER, pgbouncer

STORED, DUPLICATE = PutOutcome.STORED, PutOutcome.DUPLICATE
NO_TIME = datetime.min.replace(tzinfo=UTC)
ASKING = QueueConfig(on_lapse=OnLapse.ASK)


@pytest.fixture
async def store(clocked_dsn: str, clock: ManualClock) -> AsyncIterator[PostgresStore]:
    async with open_queue(clocked_dsn, clock) as opened:
        yield opened


@pytest.fixture
async def asking(clocked_dsn: str, clock: ManualClock) -> AsyncIterator[PostgresStore]:
    """A queue whose records must not be tried again on a suspicion."""
    async with open_queue(clocked_dsn, clock, config=ASKING) as opened:
        yield opened


def due(id_: str, priority: int = 0, due_at: datetime | None = None) -> DueRecord:
    return DueRecord(id=id_, body=b"{}", priority=priority, due_at=due_at)


async def claimed(store: PostgresStore, limit: int = 1_000) -> list[Record]:
    """By no clock of this process."""
    return await store.claim(now=NO_TIME, limit=limit, bytes_max=MIB)


@pytest.mark.parametrize("transaction_pooler", [False, True])
@pytest.mark.parametrize("transaction", [False, True])
async def test_it_works_read_committed_where_another_isolation_is_the_default(
    dsn: str, transaction_pooler: bool, transaction: bool
) -> None:
    connection = await asyncpg.connect(dsn)
    database = await connection.fetchval("SELECT quote_ident(current_database())")
    await connection.execute(f"ALTER DATABASE {database} SET default_transaction_isolation = serializable")
    await connection.close()
    async with (
        open_pool(PoolConfig(dsn=dsn, transaction_pooler=transaction_pooler)) as connections,
        connections.use(transaction=transaction) as used,
    ):
        (row,) = await used.fetch("SELECT current_setting('transaction_isolation') AS isolation")
    assert row["isolation"] == "read committed"


# the caller's transaction


async def test_a_record_is_there_if_and_only_if_its_transaction_commits(engine_dsn: str) -> None:
    async with open_queue(engine_dsn) as store:
        connection = await asyncpg.connect(engine_dsn)
        transaction = connection.transaction()
        await transaction.start()
        assert await enqueue(connection, store.queue, [due("a"), due("b"), due("a")]) == [
            STORED,
            STORED,
            DUPLICATE,
        ]
        assert await claimed(store) == []
        await transaction.rollback()
        assert await claimed(store) == []
        async with connection.transaction():
            assert await enqueue(connection, store.queue, [due("a")]) == [STORED]
        await connection.close()
        assert ids(await claimed(store)) == ["a"]


async def test_two_callers_with_the_same_ids_store_each_once(engine_dsn: str) -> None:
    async with open_queue(engine_dsn, connections_max=8) as store:
        names = [f"{n:03}" for n in range(100)]
        puts = [store.put([due(id_) for id_ in (names if n % 2 else names[::-1])]) for n in range(8)]
        outcomes = await asyncio.gather(*puts)
        assert sum(outcome.count(STORED) for outcome in outcomes) == 100
        assert sorted(ids(await claimed(store))) == names


async def test_an_id_is_one_of_its_queue_only(store: PostgresStore, clocked_dsn: str) -> None:
    async with open_queue(clocked_dsn, ManualClock()) as other:
        assert await store.put([due("a")]) == [STORED]
        assert await other.put([due("a")]) == [STORED]
        assert len(await claimed(store)) == len(await claimed(other)) == 1


async def test_more_than_a_statement_takes_is_one_transaction(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outbox.postgres.enqueue.RECORDS_PER_STATEMENT_MAX", 10)
    monkeypatch.setattr("outbox.postgres.store.RECORDS_PER_STATEMENT_MAX", 10)
    many = [due(f"{n:02}") for n in range(25)]
    broken = DueRecord(id="\ud800", body=b"")
    with pytest.raises(StoreError):
        await store.put([*many, broken])
    assert await claimed(store) == []
    assert await store.put([*many, many[0]]) == [STORED] * 25 + [DUPLICATE]
    assert ids(await claimed(store)) == [record.id for record in many]


# order and time


async def test_priority_goes_before_time_and_time_before_arrival(
    store: PostgresStore, clock: ManualClock
) -> None:
    past = later(clock, -10)
    await store.put([due("slow", 9), due("b", 1), due("c", 1), due("a", 1, past), due("first", 0)])
    assert ids(await claimed(store, limit=3)) == ["first", "a", "b"]
    assert ids(await claimed(store)) == ["c", "slow"]


async def test_what_is_due_later_is_claimed_later_and_told(store: PostgresStore, clock: ManualClock) -> None:
    await store.put([due("late", 0, later(clock, 60)), due("later", 9, later(clock, 90))])
    assert await claimed(store) == []
    assert await store.next_due() == later(clock, 60)
    clock.advance(60)
    assert ids(await claimed(store)) == ["late"]
    assert await store.next_due() == later(clock, 30)


async def test_why_a_record_waits_is_a_column(store: PostgresStore, clock: ManualClock) -> None:
    await store.put([due("a")])
    waits = {"due_at": later(clock, 60), "status": 429, "reason": "asked to wait", "spent": False}
    await end_all(store, clock, Verdict.RETRY, **waits)
    async with store._use() as connection:
        row = await connection.fetchrow(
            "SELECT state, status, waits_because, attempts FROM engine.records WHERE queue = $1", store.queue
        )
    assert row is not None
    assert tuple(row) == ("waiting", 429, "asked to wait", 0)


class WrongClock(SystemClock):
    """A worker's clock that is wrong by some time."""

    def __init__(self, wrong_s: float) -> None:
        super().__init__()
        self._wrong = timedelta(seconds=wrong_s)

    def now(self) -> datetime:
        return super().now() + self._wrong


@pytest.mark.parametrize("wrong_s", [-3600.0, 3600.0])
async def test_a_workers_wrong_clock_moves_nothing(engine_dsn: str, wrong_s: float) -> None:
    clock = WrongClock(wrong_s)
    async with open_queue(engine_dsn, clock) as store:
        await store.put([due("now"), due("in an hour", 0, SystemClock().now() + timedelta(hours=1))])
        (record,) = await claim(store, clock)
        retry = ended(record, Verdict.RETRY, clock.now(), due_at=clock.now() + timedelta(minutes=10))
        assert await store.sweep() == [], "its lease is good"
        assert store.still_held(record)
        await store.settle([retry])
        assert await claim(store, clock) == []
        next_due = await store.next_due()
        assert next_due is not None
        assert abs(next_due - clock.now() - timedelta(minutes=10)) < timedelta(minutes=2)
        async with store._use() as connection:
            ahead = await connection.fetchval(
                "SELECT max(due_at) FILTER (WHERE id = 'now') - now() FROM engine.records WHERE queue = $1",
                store.queue,
            )
        assert abs(ahead - timedelta(minutes=10)) < timedelta(minutes=2), "by the database's clock"


# leases


async def test_a_lease_that_ran_out_is_swept_and_its_holder_ends_nothing(
    store: PostgresStore, clock: ManualClock
) -> None:
    await store.put([due("a"), due("b")])
    old = await claimed(store)
    clock.advance(store.config.lease_s)
    assert await store.sweep() == [], "to the end of the lease"
    clock.advance(0.001)
    lapsed = await store.sweep()
    assert sorted((record.id, record.state, record.lapses) for record in lapsed) == [
        ("a", RecordState.WAITING, 1),
        ("b", RecordState.WAITING, 1),
    ]
    assert [(record.id, record.attempts) for record in await claimed(store, limit=1)] == [("a", 0)]
    for verdict in Verdict:
        assert await store.settle([ended(record, verdict, clock.now()) for record in old]) == 0
    assert await store.doubt([ended(record, Verdict.RETRY, clock.now()) for record in old]) == 0
    assert await store.release(old) == 0
    stats = await store.stats()
    assert (stats.waiting, stats.claimed, stats.unknown, stats.dead) == (2, 1, 0, 0)


async def test_a_renewed_lease_lasts(store: PostgresStore, clock: ManualClock) -> None:
    await put_ids(store, "a", "b")
    a, b = await claimed(store)
    await store.release([b])
    for _ in range(5):
        clock.advance(store.config.lease_s * 0.9)
        assert await store.renew() == 1
        assert await store.sweep() == []
    assert await store.settle([ended(a, Verdict.DELIVERED, clock.now())]) == 1
    assert await store.renew() == 0


async def test_what_somebody_else_took_is_not_renewed(
    store: PostgresStore, clocked_dsn: str, clock: ManualClock
) -> None:
    await put_ids(store, "a")
    await claimed(store)
    clock.advance(store.config.lease_s + 1)
    async with open_queue(clocked_dsn, clock, queue=store.queue) as other:
        assert len(await other.sweep()) == 1
        (taken,) = await claimed(other)
        assert await store.renew() == 0
        assert await other.renew() == 1
        assert await other.settle([ended(taken, Verdict.DELIVERED, clock.now())]) == 1


async def test_a_process_knows_by_its_own_ticking_that_a_lease_ran_out(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking_s = 1_000.0
    monkeypatch.setattr(store, "_monotonic", lambda: ticking_s)
    await put_ids(store, "a")
    (record,) = await claimed(store)
    lease_s, call_s_max = store.config.lease_s, store.config.call_s_max
    assert store.held_for_s(record) == lease_s
    ticking_s += lease_s - call_s_max
    assert store.still_held(record), "a call that begins now just ends in time"
    ticking_s += 0.001
    assert not store.still_held(record)
    assert await store.renew() == 1
    assert store.held_for_s(record) == lease_s
    ticking_s += lease_s + 1
    assert store.held_for_s(record) == 0


async def test_two_policies_for_a_lease_that_ran_out(asking: PostgresStore, clock: ManualClock) -> None:
    await put_ids(asking, "a")
    await claimed(asking)
    clock.advance(asking.config.lease_s + 1)
    assert [record.state for record in await asking.sweep()] == [RecordState.UNKNOWN]
    assert await claimed(asking) == [], "nobody tries it again"
    assert await asking.next_due() is None


async def test_a_sweep_is_bounded(clocked_dsn: str, clock: ManualClock) -> None:
    async with open_queue(clocked_dsn, clock, config=QueueConfig(sweep_rows_max=2)) as store:
        await put_ids(store, "a", "b", "c")
        await claimed(store)
        clock.advance(store.config.lease_s + 1)
        assert [len(await store.sweep()) for _ in range(3)] == [2, 1, 0]


# what nobody knows


async def test_a_doubt_is_asked_about_and_ends_by_proof(asking: PostgresStore, clock: ManualClock) -> None:
    await put_ids(asking, "sent", "not sent", "failed", "still unknown")
    doubts = [
        ended(record, Verdict.RETRY, clock.now(), due_at=later(clock, 90), status=502, reason="no answer")
        for record in await claimed(asking)
    ]
    assert await asking.doubt(doubts) == 4
    assert await claimed(asking) == []
    assert await asking.claim_unknown(limit=9) == [], "not before it may be asked about"
    assert (await asking.stats()).unknown == 4
    clock.advance(90)
    sent, not_sent, failed, unknown = await asking.claim_unknown(limit=9)
    assert [record.attempts for record in (sent, not_sent)] == [1, 1]
    proofs = [
        ended(sent, Verdict.DELIVERED, clock.now()),
        ended(not_sent, Verdict.RETRY, clock.now(), spent=False),
        ended(failed, Verdict.DEAD, clock.now(), reason="never found"),
    ]
    assert await asking.settle(proofs) == 3
    again = ended(unknown, Verdict.RETRY, clock.now(), due_at=later(clock, 90), spent=False)
    assert await asking.doubt([again]) == 1
    assert ids(await claimed(asking)) == ["not sent"]
    assert [dead.id for dead in await asking.dead_list(limit=9)] == ["failed"]
    stats = await asking.stats()
    assert (stats.waiting, stats.unknown) == (2, 1)


async def test_a_reconciler_that_stops_leaves_the_doubt(asking: PostgresStore, clock: ManualClock) -> None:
    await put_ids(asking, "a")
    await asking.doubt([ended(record, Verdict.RETRY, clock.now()) for record in await claimed(asking)])
    asked = await asking.claim_unknown(limit=9)
    assert (await asking.stats()).claimed == 1
    assert await asking.release(asked) == 1
    assert len(await asking.claim_unknown(limit=9)) == 1
    clock.advance(asking.config.lease_s + 1)
    assert [record.state for record in await asking.sweep()] == [RecordState.UNKNOWN]
    assert await claimed(asking) == []
    assert len(await asking.claim_unknown(limit=9)) == 1


# forgetting


async def test_ids_of_what_is_over_are_forgotten_in_time(clocked_dsn: str, clock: ManualClock) -> None:
    config = QueueConfig(remember_days=1, forget_rows_max=2)
    async with open_queue(clocked_dsn, clock, config=config) as store:
        await put_ids(store, "dead")
        await end_all(store, clock, Verdict.DEAD)
        await put_ids(store, "a", "b", "c")
        await end_all(store, clock, Verdict.DELIVERED)
        await store.put([due("waits", 0, later(clock, 10 * 24 * 3600))])
        clock.advance(24 * 3600 + 1)
        await put_ids(store, "young")
        await end_all(store, clock, Verdict.DELIVERED)
        assert [await store.forget() for _ in range(3)] == [2, 1, 0]
        outcomes = await store.put([due(id_) for id_ in ("a", "b", "c", "dead", "waits", "young")])
        assert outcomes == [STORED] * 3 + [DUPLICATE] * 3


async def test_a_requeued_letter_is_known_anew(clocked_dsn: str, clock: ManualClock) -> None:
    async with open_queue(clocked_dsn, clock, config=QueueConfig(remember_days=1)) as store:
        await store.put([due("a", 7)])
        await end_all(store, clock, Verdict.DEAD)
        clock.advance(24 * 3600 + 1)
        assert await store.dead_requeue(["a"]) == 1
        assert await store.put([due("b", 6)]) == [STORED]
        taken = await claimed(store)
        assert ids(taken) == ["b", "a"], "with its old priority"
        assert await store.settle([ended(record, Verdict.DELIVERED, clock.now()) for record in taken]) == 2
        assert await store.forget() == 0
        assert await store.put([due("a")]) == [DUPLICATE]


# many at once, and ends


async def test_fifty_claimers_never_take_the_same_record(engine_dsn: str) -> None:
    queue = a_queue()
    async with (
        open_queue(engine_dsn, queue=queue, connections_max=25) as one,
        open_queue(engine_dsn, queue=queue, connections_max=25) as two,
    ):
        names = [f"{n:04}" for n in range(2_000)]
        await one.put([due(id_) for id_ in names])

        async def take(store: PostgresStore) -> list[str]:
            taken = []
            while records := await claimed(store, limit=7):
                taken += ids(records)
            return taken

        takers = [take(store) for store in (one, two) for _ in range(25)]
        everything = [id_ for taken in await asyncio.gather(*takers) for id_ in taken]
        assert sorted(everything) == names
        assert (await one.stats()).claimed == 2_000


async def test_closing_gives_back_and_a_closed_queue_says_so(clocked_dsn: str, clock: ManualClock) -> None:
    async with open_queue(clocked_dsn, clock) as store:
        await put_ids(store, "a")
        assert len(await claimed(store)) == 1
        await store.close()
        await store.close()
        with pytest.raises(StoreUnavailable):
            await store.stats()
        async with open_queue(clocked_dsn, clock, queue=store.queue) as other:
            assert ids(await claimed(other)) == ["a"]


async def test_what_a_cancelled_claim_took_goes_back_at_once(engine_dsn: str) -> None:
    async with open_queue(engine_dsn) as store:
        await put_ids(store, "a")
        blocker = await asyncpg.connect(engine_dsn)
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE engine.records IN ACCESS EXCLUSIVE MODE")
            claiming = asyncio.create_task(claimed(store))
            await _until_one_waits(blocker)
            claiming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claiming
        await blocker.close()
        async with asyncio.timeout(10):
            while not (taken := await claimed(store)):
                await asyncio.sleep(0.01)
        assert ids(taken) == ["a"]
        assert await store.sweep() == []


async def _until_one_waits(connection: asyncpg.Connection) -> None:
    async with asyncio.timeout(10):
        while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.01)


async def every_call(store: PostgresStore) -> None:
    now = SystemClock().now()
    await store.put([due("a"), due("b"), due("c"), due("d")])
    a, b, c, d = await claimed(store)
    assert await store.renew() == 4
    ends = [ended(a, Verdict.DELIVERED, now), ended(b, Verdict.DEAD, now), ended(c, Verdict.RETRY, now)]
    assert await store.settle(ends) == 3
    assert await store.doubt([ended(d, Verdict.RETRY, now)]) == 1
    assert ids(await store.claim_unknown(limit=9)) == ["d"]
    assert ids(await claimed(store)) == ["c"]
    assert await store.dead_requeue(None) == 1
    assert await store.next_due() is not None
    assert (await store.stats()).waiting == 3
    assert await store.sweep() == []
    assert await store.forget() == 0


async def test_calls_for_a_pooler_are_transactions_without_names(engine_dsn: str) -> None:
    async with open_queue(engine_dsn, transaction_pooler=True) as store:
        await every_call(store)
        async with store._use() as connection:
            assert connection.is_in_transaction()
            assert (
                await connection.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''") == 0
            )


async def test_it_works_behind_pgbouncer(engine_dsn: str) -> None:
    """B110: transaction mode, two server connections, many calls at once."""
    if PGBOUNCER is None:
        not_installed("pgbouncer")
    async with pgbouncer(engine_dsn) as pooled, AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(open_queue(pooled, transaction_pooler=True)) for _ in range(8)
        ]
        await asyncio.gather(*(every_call(store) for store in stores))


async def test_it_starts_without_its_database_and_heals(engine_dsn: str, tmp_path: Path) -> None:
    missing = f"postgresql://postgres@/none?host={tmp_path}"
    async with open_queue(missing) as store:
        with pytest.raises(StoreUnavailable, match="postgres"):
            await store.stats()
    async with open_queue(engine_dsn) as store:
        await put_ids(store, "a")
        async with store._use() as connection:
            backend = await connection.fetchval("SELECT pg_backend_pid()")
        other = await asyncpg.connect(engine_dsn)
        await other.execute("SELECT pg_terminate_backend($1, 10000)", backend)
        await other.close()
        async with asyncio.timeout(10):
            while True:
                try:
                    assert ids(await claimed(store)) == ["a"]
                except StoreUnavailable:
                    continue
                break


async def test_a_mistake_is_no_outage(engine_dsn: str) -> None:
    async with open_queue(engine_dsn) as store:
        with pytest.raises(StoreError) as caught:
            async with store._use() as connection:
                await connection.execute("SELECT nobody")
        assert not isinstance(caught.value, StoreUnavailable)


# upkeep


async def test_upkeep_renews_sweeps_and_forgets(clocked_dsn: str, clock: ManualClock) -> None:
    lapsed: list[Lapsed] = []
    config, queue = QueueConfig(remember_days=1), a_queue()
    async with (
        open_queue(clocked_dsn, clock, queue=queue, config=config) as store,
        open_queue(clocked_dsn, clock, queue=queue, config=config) as dying,
    ):
        await put_ids(store, "theirs", "ours", "old")
        assert ids(await claimed(dying, limit=1)) == ["theirs"]
        _ours, old = await claimed(store)
        await store.settle([ended(old, Verdict.DELIVERED, clock.now())])
        upkeep = Upkeep(store, clock, on_lapsed=lapsed.append, on_failure=pytest.fail)
        for _ in range(5):
            await upkeep.tick()
            clock.advance(config.renew_every_s)
        assert [record.id for record in lapsed] == ["theirs"]
        assert ids(await claimed(store)) == ["theirs"]
        clock.advance(24 * 3600)
        await upkeep.tick()
        assert await store.put([due("old"), due("ours")]) == [STORED, DUPLICATE]


async def test_upkeep_outlives_an_outage(clock: ManualClock, tmp_path: Path) -> None:
    failures: list[str] = []
    async with open_queue(f"postgresql://postgres@/none?host={tmp_path}", clock) as store:
        upkeep = Upkeep(store, clock, on_lapsed=lambda _: None, on_failure=failures.append)
        stop = asyncio.Event()
        running = asyncio.create_task(upkeep.run(stop))
        await until(lambda: clock.waiting == 1)
        clock.advance(store.config.renew_every_s)
        await until(lambda: len(failures) == 2)
        stop.set()
        await running
