"""Every store against the model, by any sequence of calls; for SQLite also with a crash anywhere between."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from outbox.blob_files import FOLDER_NAME
from outbox.clock import ManualClock
from outbox.memory import MemoryStore
from outbox.postgres.config import QueueConfig
from outbox.postgres.enqueue import DueRecord
from outbox.postgres.store import PostgresStore
from outbox.record import Guard, GuardMode, NewRecord, PutOutcome, Record
from outbox.sqlite import open_sqlite
from outbox.sqlite_file import FILE_NAME
from outbox.store import Queue, Settlement, Store
from outbox.verdict import Verdict
from tests.outbox.model import Key, Model
from tests.outbox.postgres import a_queue, open_queue
from tests.outbox.records import blob_of, ended, marked_lost, seen

T = TypeVar("T")

LEASE_S = 100

IDS = st.sampled_from(["a", "b", "c", "d", "e"])
DIGESTS = st.sampled_from([b"", b"1", b"2"])
BODIES = st.binary(max_size=40)
VALUES = st.sampled_from([b"x", b"y"])
GUARDS = st.builds(
    Guard,
    key=st.sampled_from(["s", "t"]),
    mode=st.sampled_from([GuardMode.SNAPSHOT, GuardMode.CLEAR]),
    members=st.dictionaries(st.sampled_from(["n", "m"]), VALUES, max_size=2),
) | st.builds(
    Guard,
    key=st.sampled_from(["u", "v"]),
    mode=st.just(GuardMode.TRANSITION),
    members=st.fixed_dictionaries({"": VALUES}),
)
CONTENTS = st.lists(st.sampled_from([b"picture", b"sound"]), min_size=1, max_size=2)
NEW = st.tuples(IDS | st.none(), DIGESTS, BODIES, st.none() | GUARDS)


class QueueMachine(RuleBasedStateMachine):
    """Rules are calls; the model says what each must return and what must be there afterwards."""

    queue: Queue

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.started_at = self.clock.now()
        self.model = Model()
        self.held: list[Record] = []
        self.lost_leases: list[Record] = []

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    def teardown(self) -> None:
        self.run(self.queue.close())
        self.runner.close()

    @rule(limit=st.integers(1, 6))
    def claim(self, limit: int) -> None:
        records = self.run(self.queue.claim(now=self.clock.now(), limit=limit, bytes_max=10_000))
        keys: list[Key] = [(record.id, record.digest) for record in records]
        assert keys == self.model.due()[:limit]
        for key, record in zip(keys, records, strict=True):
            waiting = self.model.waiting[key]
            assert (record.body, record.attempts) == (waiting.body, waiting.attempts)
        self.model.claimed.update(keys)
        self.held += records

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        verdict=st.sampled_from([Verdict.DELIVERED, Verdict.DEAD, Verdict.RETRY]),
        delay_s=st.integers(0, 20),
        spent=st.booleans(),
    )
    def settle(self, data: st.DataObject, verdict: Verdict, delay_s: int, spent: bool) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.held), min_size=1, unique_by=lambda r: r.rowid))
        now = self.clock.now()
        settlements = [
            Settlement(
                rowid=record.rowid,
                lease=record.lease,
                verdict=verdict,
                now=now,
                due_at=now + timedelta(seconds=delay_s),
                spent=spent,
            )
            for record in chosen
        ]
        assert self.run(self.queue.settle(settlements)) == len(chosen)
        for record in chosen:
            self._settled(record, verdict, delay_s, spent)
            self.held.remove(record)
            self.lost_leases.append(record)

    def _settled(self, record: Record, verdict: Verdict | None, delay_s: int, spent: bool) -> None:
        """None: the end is not known."""
        key = (record.id, record.digest)
        if verdict is Verdict.DELIVERED:
            self.model.deliver(key)
        elif verdict is Verdict.DEAD:
            self.model.kill(key)
        else:
            self.model.claimed.discard(key)
            (self.model.unknown.add if verdict is None else self.model.unknown.discard)(key)
            self.model.waiting[key].due_s = self.model.now_s + delay_s
            self.model.waiting[key].attempts += spent

    @precondition(lambda self: self.held)
    @rule()
    def release(self) -> None:
        assert self.run(self.queue.release(self.held)) == len(self.held)
        self.model.claimed.clear()
        self.lost_leases += self.held
        self.held = []

    @precondition(lambda self: self.lost_leases)
    @rule(verdict=st.sampled_from(list(Verdict)))
    def settle_what_is_not_held(self, verdict: Verdict) -> None:
        now = self.clock.now()
        stale = [Settlement(rowid=r.rowid, lease=r.lease, verdict=verdict, now=now) for r in self.lost_leases]
        assert self.run(self.queue.settle(stale)) == 0
        assert self.run(self.queue.release(self.lost_leases)) == 0

    @rule(ids=st.none() | st.lists(IDS, max_size=3))
    def requeue(self, ids: list[str] | None) -> None:
        chosen = [key for key in self.model.dead if ids is None or key[0] in ids]
        assert self.run(self.queue.dead_requeue(ids)) == len(chosen)
        for key in chosen:
            self.model.requeue(key)

    @rule(ids=st.none() | st.lists(IDS, max_size=3))
    def drop(self, ids: list[str] | None) -> None:
        chosen = [key for key in self.model.dead if ids is None or key[0] in ids]
        assert self.run(self.queue.dead_drop(ids)) == len(chosen)
        for key in chosen:
            del self.model.dead[key]
            self.model.unrefer(key)

    @rule(seconds=st.integers(1, 15))
    def pass_time(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.model.now_s += seconds

    @invariant()
    def depths_are_right(self) -> None:
        stats = self.run(self.queue.stats())
        model = self.model
        assert (stats.waiting, stats.claimed) == (len(model.waiting), len(model.claimed))
        assert (self.run(seen(self.queue)), stats.dead) == (len(model.seen), len(model.dead))
        blobs = [blob for blob in model.blobs.values() if not blob.is_dead]
        bodies = sum(len(waiting.body) for waiting in model.waiting.values())
        assert stats.bytes == bodies + sum(blob.size for blob in blobs)

    @invariant()
    def the_next_due_is_right(self) -> None:
        free = self.model.free()
        wanted = self.started_at + timedelta(seconds=free[0][0]) if free else None
        assert self.run(self.queue.next_due()) == wanted

    @invariant()
    def dead_letters_are_intact(self) -> None:
        listed = self.run(self.queue.dead_list(limit=1_000))
        assert [(dead.id, dead.digest) for dead in listed] == list(self.model.dead)


class StoreMachine(QueueMachine):
    """And what a collector's store adds: digests, guards, stamps and blobs."""

    def __init__(self) -> None:
        super().__init__()
        self.files = contextlib.ExitStack()
        self.folder = self.new_folder()
        self.held_blobs: list[Record] = []
        self.queue = self.store = self.run(self.open())
        self.epoch = self.store.epoch

    def new_folder(self) -> Path:
        return Path(self.files.enter_context(tempfile.TemporaryDirectory()))

    async def open(self) -> Store:
        return MemoryStore(self.clock, folder=self.folder, mark_lost=marked_lost)

    def teardown(self) -> None:
        super().teardown()
        self.files.close()

    @rule(records=st.lists(NEW, min_size=1, max_size=5))
    def put(self, records: list[tuple[str | None, bytes, bytes, Guard | None]]) -> None:
        made = [
            NewRecord(
                id=id_ if id_ is not None else lambda stamp: f"{stamp.epoch}.{stamp.number}",
                digest=digest,
                body=body,
                guard=guard,
            )
            for id_, digest, body, guard in records
        ]
        results = self.run(self.store.put(made))
        for (id_, digest, body, guard), result in zip(records, results, strict=True):
            stamped = f"{self.epoch}.{self.model.number + 1}"
            outcome = self.model.put((id_ or stamped, digest), body, guard)
            if id_ is None and outcome is not PutOutcome.SUPPRESSED:
                self.model.number += 1
            assert result.outcome is outcome
            if outcome is not PutOutcome.SUPPRESSED:
                assert result.id == (id_ or stamped)

    @rule(ids=st.lists(st.tuples(IDS, DIGESTS), min_size=1, max_size=2), chosen=CONTENTS)
    def put_with_blobs(self, ids: list[Key], chosen: list[bytes]) -> None:
        blobs = tuple(blob_of(self.folder / "spool", content) for content in chosen)
        results = self.run(
            self.store.put([NewRecord(id=key[0], digest=key[1], body=b"b", blobs=blobs) for key in ids])
        )
        for key, result in zip(ids, results, strict=True):
            outcome = self.model.put(key, b"b", None)
            assert result.outcome is outcome
            if outcome is not PutOutcome.DUPLICATE:
                for blob in blobs:
                    self.model.refer(key, blob.sha256, blob.bytes)

    @rule(limit=st.integers(1, 2))
    def claim_blobs(self, limit: int) -> None:
        records = self.run(self.store.blobs.claim(now=self.clock.now(), limit=limit, bytes_max=0))
        assert [record.id for record in records] == self.model.due_blobs()[:limit]
        for record in records:
            assert record.attempts == self.model.blobs[record.id].attempts
        self.model.claimed_blobs.update(record.id for record in records)
        self.held_blobs += records

    @precondition(lambda self: self.held_blobs)
    @rule(
        verdict=st.sampled_from([Verdict.DELIVERED, Verdict.DELIVERED, Verdict.DEAD, Verdict.RETRY]),
        delay_s=st.integers(0, 20),
    )
    def settle_blob(self, verdict: Verdict, delay_s: int) -> None:
        record, now = self.held_blobs.pop(), self.clock.now()
        due_at = now + timedelta(seconds=delay_s)
        end = Settlement(
            rowid=record.rowid, lease=record.lease, verdict=verdict, now=now, due_at=due_at, reason="r"
        )
        assert self.run(self.store.blobs.settle([end])) == 1
        assert self.run(self.store.blobs.settle([end])) == 0
        if verdict is Verdict.RETRY:
            self.model.claimed_blobs.discard(record.id)
            self.model.blobs[record.id].due_s = self.model.now_s + delay_s
            self.model.blobs[record.id].attempts += 1
            return
        for key in self.model.end_blob(record.id, is_dead=verdict is Verdict.DEAD):
            waiting = self.model.waiting[key]
            waiting.body = marked_lost(waiting.body, record.id, "r")

    @rule()
    def requeue_dead_blobs(self) -> None:
        dead = [sha256 for sha256, blob in self.model.blobs.items() if blob.is_dead]
        assert self.run(self.store.blobs.dead_requeue(None)) == len(dead)
        for sha256 in dead:
            self.model.again(sha256)

    @invariant()
    def waiting_blobs_are_counted(self) -> None:
        blobs = [blob for blob in self.model.blobs.values() if not blob.is_dead]
        stats = self.run(self.store.stats())
        assert stats.blobs_waiting == sum(blob.due_s is not None for blob in blobs)

    @invariant()
    def only_the_files_that_are_needed_are_there(self) -> None:
        folder = self.store.blobs.path_of("0" * 64).parent
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        assert names == set(self.model.blobs)


class SqliteMachine(StoreMachine):
    """The same, on a file; a crash is a copy of it as it lies, opened by somebody else."""

    async def open(self) -> Store:
        return await open_sqlite(self.folder, self.clock, mark_lost=marked_lost)

    @rule(torn=st.binary(max_size=200), in_flight=st.booleans())
    def crash(self, torn: bytes, in_flight: bool) -> None:
        """``torn``: what a power cut left behind the last commit; ``in_flight``: nobody heard the answer."""
        unheard = NewRecord(id="unheard", body=b"u")
        result = self.run(self.store.put([unheard])) if in_flight else None
        copy = self.new_folder()
        if (self.folder / FOLDER_NAME).exists():
            shutil.copytree(self.folder / FOLDER_NAME, copy / FOLDER_NAME)
        for path in self.folder.glob(f"{FILE_NAME}*"):
            if not path.name.endswith("-shm"):
                shutil.copy(path, copy / path.name)
        with (copy / f"{FILE_NAME}-wal").open("ab") as wal:
            wal.write(torn)
        self.run(self.store.close())
        self.folder = copy
        self.store = self.run(self.open())
        self.queue = self.store
        assert self.store.epoch == self.epoch
        self.model.claimed.clear()
        self.model.claimed_blobs.clear()
        self.lost_leases, self.held, self.held_blobs = [], [], []
        if result is not None:
            self.model.put(("unheard", b""), b"u", None)


class PostgresMachine(QueueMachine):
    """On a database that goes by the same clock; workers come and go, and not every end is known."""

    dsn: str

    def __init__(self) -> None:
        super().__init__()
        self.name = a_queue()
        self.opened = contextlib.AsyncExitStack()
        self.queue = self.store = self.run(self.open())

    async def open(self) -> PostgresStore:
        config = QueueConfig(lease_s=LEASE_S, call_s_max=1)
        return await self.opened.enter_async_context(
            open_queue(self.dsn, self.clock, queue=self.name, config=config)
        )

    @rule(records=st.lists(st.tuples(IDS, BODIES), min_size=1, max_size=5))
    def put(self, records: list[tuple[str, bytes]]) -> None:
        outcomes = self.run(self.store.put([DueRecord(id=id_, body=body) for id_, body in records]))
        assert outcomes == [self.model.put((id_, b""), body, None) for id_, body in records]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), delay_s=st.integers(0, 20), spent=st.booleans())
    def doubt(self, data: st.DataObject, delay_s: int, spent: bool) -> None:
        record = data.draw(st.sampled_from(self.held))
        now = self.clock.now()
        due_at = now + timedelta(seconds=delay_s)
        doubted = ended(record, Verdict.RETRY, now, due_at=due_at, spent=spent)
        assert self.run(self.store.doubt([doubted])) == 1
        self._settled(record, None, delay_s, spent)
        self.held.remove(record)
        self.lost_leases.append(record)

    @rule(limit=st.integers(1, 3))
    def ask(self, limit: int) -> None:
        records = self.run(self.store.claim_unknown(limit=limit))
        keys = [(record.id, record.digest) for record in records]
        assert keys == self.model.due(unknown=True)[:limit]
        self.model.claimed.update(keys)
        self.held += records

    @precondition(lambda self: self.held)
    @rule(renewed=st.booleans(), died=st.booleans())
    def time_of_a_lease_passes(self, renewed: bool, died: bool) -> None:
        """A worker that died renews nothing, and another process sweeps what it held."""
        half_s = LEASE_S // 2 + 1
        self.pass_time(half_s)
        if died:
            self.store = self.run(self.open())
        if renewed:
            assert self.run(self.store.renew()) == (0 if died else len(self.held))
        self.pass_time(half_s)
        lapsed = self.run(self.store.sweep())
        is_kept = renewed and not died
        assert sorted(lapse.id for lapse in lapsed) == ([] if is_kept else sorted(r.id for r in self.held))
        if not is_kept:
            self.lost_leases += self.held
            self.held = []
            self.model.claimed.clear()
        self.queue = self.store

    @invariant()
    def doubts_are_counted(self) -> None:
        assert self.run(self.store.stats()).unknown == len(self.model.unknown)

    def teardown(self) -> None:
        self.run(self.opened.aclose())
        self.runner.close()


_FEW = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
StoreMachine.TestCase.settings = settings(_FEW, max_examples=60)
SqliteMachine.TestCase.settings = _FEW
TestMemoryStore = StoreMachine.TestCase
TestSqliteStore = SqliteMachine.TestCase


def test_postgres_store(clocked_dsn: str) -> None:
    class Machine(PostgresMachine):
        dsn = clocked_dsn

    run_state_machine_as_test(Machine, settings=_FEW)
