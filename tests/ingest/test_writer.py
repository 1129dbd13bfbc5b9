"""The fates of group commit, against the real database."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import weakref
from collections.abc import Sequence

import asyncpg
import pytest

from contracts.envelope import EVENT_PATH
from ingest.config import IngestConfig
from ingest.row import CommitBatch, Committed, Row, UnavailableError
from ingest.writer import Writer
from tests.ingest.backend import Backend, an_id, backend, event, signed

DIGESTS = ["aa" * 16, "bb" * 16, "cc" * 16]


class Gate:
    """Holds every commit until it is opened, so that what arrives meanwhile becomes one group."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.reached = asyncio.Event()
        self.groups: list[int] = []

    def around(self, commit: CommitBatch) -> CommitBatch:
        async def gated(rows: Sequence[Row]) -> list[Committed]:
            self.groups.append(len(rows))
            self.reached.set()
            await self.open.wait()
            return await commit(rows)

        return gated


class Rows(list[Row]):
    """Rows of one request, of which can be told when they are gone."""


async def test_what_was_refused_is_given_up_at_once() -> None:
    """A body in a circle with its own error would stay until somebody looks for circles."""

    async def away(_rows: Sequence[Row]) -> list[Committed]:
        raise UnavailableError("away")

    writer = Writer(IngestConfig(dsn="", secrets=(b"x" * 16,)), [away])
    running = asyncio.create_task(writer.run())
    gc.disable()
    try:
        rows = Rows()
        gone = weakref.ref(rows)
        with contextlib.suppress(UnavailableError):
            await writer.write(rows, 1)
        del rows
        await asyncio.sleep(0)  # the loop's own handle of this turn has it
        assert gone() is None
    finally:
        gc.enable()
        running.cancel()
        await asyncio.wait([running])


async def waiting(b: Backend, rows: int) -> None:
    """Until so many rows wait for a lane."""
    async with asyncio.timeout(10):
        while b.service.writer.queued_rows < rows:
            await asyncio.sleep(0.005)


async def test_what_arrives_during_a_commit_is_one_group(dsn: str) -> None:
    gate = Gate()
    async with backend(dsn, around_commit=gate.around, writer_connections=1) as b:
        posts = [asyncio.create_task(b.post(an_id(), event()))]
        await gate.reached.wait()
        posts += [asyncio.create_task(b.post(an_id(), event())) for _ in range(30)]
        await waiting(b, 30)
        gate.open.set()
        assert [answer.status_code for answer in await asyncio.gather(*posts)] == [201] * 31
        assert gate.groups == [1, 30]


async def test_the_same_id_twice_in_a_group(dsn: str) -> None:
    gate = Gate()
    async with backend(dsn, around_commit=gate.around, writer_connections=1) as b:
        first = asyncio.create_task(b.post(an_id(), event()))
        await gate.reached.wait()
        event_id, posts = an_id(), []
        for number in range(3):
            body = event(payload={"n": number}, digest=DIGESTS[min(number, 1)])
            posts.append(asyncio.create_task(b.post(event_id, body)))
            await waiting(b, number + 1)
        gate.open.set()
        assert [answer.status_code for answer in await asyncio.gather(*posts)] == [201, 200, 200]
        assert (await first).status_code == 201
        assert gate.groups == [1, 3]
        assert (await b.last_event())["payload"] == {"n": 0}
        (conflict,) = await b.fetch("SELECT * FROM lake.conflicts")
        assert json.loads(conflict["payload"]) == {"n": 1}
        assert (conflict["digest"], conflict["seen_count"]) == (b"\xbb" * 16, 2)


async def test_the_same_id_with_other_content_shows_in_conflicts_and_is_counted(dsn: str) -> None:
    async with backend(dsn) as b:
        event_id = an_id()
        for digest in (DIGESTS[0], DIGESTS[0], DIGESTS[1], DIGESTS[2], DIGESTS[1], None):
            answer = await b.post(event_id, event(payload={"d": digest}, digest=digest))
            assert answer.status_code in (200, 201)
        assert await b.count() == 1
        rows = await b.fetch("SELECT digest, seen_count, payload FROM lake.conflicts ORDER BY digest")
        assert [(row["digest"].hex(), row["seen_count"]) for row in rows] == [
            (DIGESTS[1], 2),
            (DIGESTS[2], 1),
        ]
        assert json.loads(rows[0]["payload"]) == {"d": DIGESTS[1]}


async def test_an_event_stored_without_a_digest_has_no_conflicts(dsn: str) -> None:
    async with backend(dsn) as b:
        event_id = an_id()
        await b.post(event_id, event())
        assert (await b.post(event_id, event(digest=DIGESTS[0]))).status_code == 200
        assert await b.fetch("SELECT 1 FROM lake.conflicts") == []


REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF NEW.payload ? 'poison' THEN RAISE check_violation; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON lake.whatsapp_event_logs FOR EACH ROW EXECUTE FUNCTION refuse();
"""


async def execute(dsn: str, statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


@pytest.mark.parametrize("poisoned", [[7], [0, 15], list(range(16))], ids=["one", "both ends", "all"])
async def test_a_row_that_postgres_refuses_gets_its_error_and_its_neighbours_201(
    dsn: str, poisoned: list[int]
) -> None:
    await execute(dsn, REFUSE)
    gate = Gate()
    async with backend(dsn, around_commit=gate.around, writer_connections=1) as b:
        first = asyncio.create_task(b.post(an_id(), event()))
        await gate.reached.wait()
        posts = []
        for number in range(16):
            payload = {"poison" if number in poisoned else "good": number}
            posts.append(asyncio.create_task(b.post(an_id(), event(payload=payload))))
            await waiting(b, number + 1)
        gate.open.set()
        answers = await asyncio.gather(*posts)
        wanted = [422 if number in poisoned else 201 for number in range(16)]
        assert [answer.status_code for answer in answers] == wanted
        assert (await first).status_code == 201
        assert gate.groups[:2] == [1, 16]
        assert await b.count() == 17 - len(poisoned)
        assert len(await b.fetch("SELECT 1 FROM lake.event_ids")) == 17 - len(poisoned)


async def test_a_refused_line_of_a_batch_is_rejected_alone(dsn: str) -> None:
    await execute(dsn, REFUSE)
    async with backend(dsn) as b:
        ids = [an_id() for _ in range(5)]
        answer = await b.post_batch(
            *[event(event_id=i, payload={"poison" if n == 2 else "good": n}) for n, i in enumerate(ids)]
        )
        lines = [json.loads(line) for line in answer.content.splitlines()]
        assert [line["status"] for line in lines] == ["stored", "stored", "rejected", "stored", "stored"]
        assert (lines[2]["event_id"], lines[2]["code"]) == (ids[2], 422)


async def test_201_is_said_only_after_commit(dsn: str) -> None:
    """A deferred constraint fails inside COMMIT itself: after the rows came back, before they are durable."""
    await execute(
        dsn,
        """
        CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF EXISTS (SELECT 1 FROM lake.whatsapp_event_logs l
                          WHERE l.event_id = NEW.event_id AND l.payload ? 'late')
              THEN RAISE check_violation; END IF; RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER late AFTER INSERT ON lake.event_ids
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late();
        """,
    )
    async with backend(dsn) as b:
        assert (await b.post(an_id(), event(payload={"late": 1}))).status_code == 422
        assert await b.count() == 0
        assert (await b.post(an_id(), event())).status_code == 201


async def test_an_unknown_commit_is_503_and_the_resend_tells(dsn: str) -> None:
    """The backend's connection is killed while its COMMIT runs; nothing is lost and nothing doubled."""
    await execute(
        dsn,
        """
        CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON lake.event_ids
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow();
        """,
    )
    blocker = await asyncpg.connect(dsn)
    await blocker.execute("SELECT pg_advisory_lock(42)")
    async with backend(dsn, writer_connections=1) as b:
        event_id, body = an_id(), event()
        post = asyncio.create_task(b.post(event_id, body))
        kill = """
            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event = 'advisory'
        """
        async with asyncio.timeout(10):
            while not await blocker.fetchval(kill):
                await asyncio.sleep(0.01)
        answer = await post
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        await blocker.execute("SELECT pg_advisory_unlock(42)")
        assert (await b.post(event_id, body)).status_code == 201
        assert (await b.post(event_id, body)).status_code == 200
        assert await b.count() == 1
    await blocker.close()


async def test_a_commit_whose_answer_was_lost_is_a_duplicate_afterwards(dsn: str) -> None:
    lost = asyncio.Event()

    def around(commit: CommitBatch) -> CommitBatch:
        async def lossy(rows: Sequence[Row]) -> list[Committed]:
            fates = await commit(rows)
            if not lost.is_set():
                lost.set()
                raise UnavailableError("the answer was lost")
            return fates

        return lossy

    async with backend(dsn, around_commit=around) as b:
        event_id, body = an_id(), event()
        assert (await b.post(event_id, body)).status_code == 503
        assert (await b.post(event_id, body)).json()["status"] == "duplicate"
        assert await b.count() == 1


async def test_a_client_that_left_strands_nobody(dsn: str) -> None:
    gate = Gate()
    async with backend(dsn, around_commit=gate.around, writer_connections=1) as b:
        leaver, body = an_id(), event()
        head = "".join(f"{name}: {value}\r\n" for name, value in signed(leaver, body).items())
        _, stream = await asyncio.open_connection("127.0.0.1", b.port)
        request = f"POST {EVENT_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{head}\r\n"
        stream.write(request.encode() + body)
        await gate.reached.wait()
        stayers = [asyncio.create_task(b.post(an_id(), event())) for _ in range(5)]
        await waiting(b, 5)
        stream.close()
        await stream.wait_closed()
        gate.open.set()
        assert [answer.status_code for answer in await asyncio.gather(*stayers)] == [201] * 5
        assert await b.count() == 6
        assert b.service.doors.budget.bytes_used == 0


async def test_503_when_the_queue_of_rows_is_full(dsn: str) -> None:
    gate = Gate()
    async with backend(
        dsn, around_commit=gate.around, writer_connections=1, batch_lines_max=3, queue_rows_max=3
    ) as b:
        posts = [asyncio.create_task(b.post(an_id(), event()))]
        await gate.reached.wait()
        posts += [asyncio.create_task(b.post(an_id(), event())) for _ in range(3)]
        await waiting(b, 3)
        full = await b.post(an_id(), event())
        assert (full.status_code, full.headers["retry-after"]) == (503, "2")
        gate.open.set()
        assert [answer.status_code for answer in await asyncio.gather(*posts)] == [201] * 4


async def test_a_stop_answers_what_was_accepted_and_sends_the_rest_away(dsn: str) -> None:
    gate = Gate()
    async with backend(dsn, around_commit=gate.around, writer_connections=1) as b:
        accepted = [asyncio.create_task(b.post(an_id(), event()))]
        await gate.reached.wait()
        accepted += [asyncio.create_task(b.post(an_id(), event())) for _ in range(4)]
        await waiting(b, 4)
        drained = asyncio.create_task(b.service.drain())
        await asyncio.sleep(0)
        late = await b.post(an_id(), event())
        assert (late.status_code, late.headers["retry-after"]) == (503, "2")
        assert (await b.client.get("/readyz")).status_code == 503
        assert (await b.client.get("/healthz")).status_code == 200
        gate.open.set()
        assert await drained
        assert [answer.status_code for answer in await asyncio.gather(*accepted)] == [201] * 5
        assert await b.count() == 5


async def test_a_stop_is_bounded_when_the_database_hangs(dsn: str) -> None:
    gate = Gate()
    async with backend(dsn, around_commit=gate.around, writer_connections=1, drain_s_max=0.2) as b:
        post = asyncio.create_task(b.post(an_id(), event()))
        await gate.reached.wait()
        queued = asyncio.create_task(b.post(an_id(), event()))
        assert not await b.service.drain()
        assert [(await post).status_code, (await queued).status_code] == [503, 503]


@pytest.mark.parametrize("group_commit", [True, False])
async def test_many_writers_at_once_lose_and_double_nothing(dsn: str, group_commit: bool) -> None:
    async with backend(dsn, group_commit=group_commit, writer_connections=4) as b:
        ids = [an_id() for _ in range(60)]
        posts = [b.post(i, event(digest=DIGESTS[0])) for i in ids for _ in range(3)]
        batches = [b.post_batch(*[event(event_id=i) for i in reversed(ids)]) for _ in range(4)]
        answers = await asyncio.gather(*posts, *batches)
        assert {answer.status_code for answer in answers} <= {200, 201}
        assert sorted(row["event_id"] for row in await b.events()) == sorted(ids)


async def test_a_lane_that_dies_ends_the_service_and_strands_nobody(dsn: str) -> None:
    gate = Gate()

    def around(commit: CommitBatch) -> CommitBatch:
        gated = gate.around(commit)

        async def broken(rows: Sequence[Row]) -> list[Committed]:
            await gated(rows)
            raise ZeroDivisionError("an error of our own")

        return broken

    answers: list[int] = []

    async def serve_until_it_dies() -> None:
        async with backend(dsn, around_commit=around, writer_connections=1) as b:
            posts = [asyncio.create_task(b.post(an_id(), event()))]
            await gate.reached.wait()
            posts += [asyncio.create_task(b.post(an_id(), event())) for _ in range(3)]
            await waiting(b, 3)
            gate.open.set()
            try:
                await asyncio.Event().wait()
            finally:
                answers.extend([(await post).status_code for post in posts])

    with pytest.raises(ExceptionGroup) as caught:
        await serve_until_it_dies()
    assert answers == [503] * 4
    assert caught.group_contains(ZeroDivisionError)
