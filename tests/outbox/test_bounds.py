"""A full store says so, keeps what it has, goes on shipping and takes records again once there is room."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outbox.clock import ManualClock
from outbox.memory import MemoryStore
from outbox.record import GuardMode, NewRecord, PutOutcome
from outbox.sqlite import open_sqlite
from outbox.store import Store, StoreFull, StoreLimits
from outbox.verdict import Verdict
from tests.outbox.records import claim, end_all, ended, guarded, ids, new, put_ids, put_one

LIMITS = StoreLimits(rows_max=3, bytes_max=1_000)


@pytest.fixture(params=["memory", "sqlite"])
async def small(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store
    if request.param == "memory":
        opened = MemoryStore(clock, LIMITS)
    else:
        opened = await open_sqlite(tmp_path / "outbox", clock, LIMITS)
    yield opened
    await opened.close()


async def test_a_row_too_many_is_refused_and_the_oldest_stays(small: Store, clock: ManualClock) -> None:
    await put_ids(small, "a", "b", "c")
    with pytest.raises(StoreFull, match="3 records wait, the limit is 3"):
        await put_ids(small, "d")
    assert (await small.stats()).waiting == 3
    first, *_ = await claim(small, clock)
    await small.settle([ended(first, Verdict.DELIVERED, clock.now())])
    await put_ids(small, "d")
    assert first.id == "a"
    assert ids(await claim(small, clock)) == ["d"]


async def test_what_a_full_store_refused_is_given_up_at_once(small: Store) -> None:
    """A body in a circle with its own error would stay until somebody looks for circles."""

    class Records(list[NewRecord]):
        """Of which can be told when they are gone."""

    await put_ids(small, "a", "b", "c")
    gc.disable()
    try:
        refused = []
        for number in range(5):
            records = Records([new(f"refused {number}")])
            refused.append(weakref.ref(records))
            with contextlib.suppress(StoreFull):
                await small.put(records)
            del records
        await small.stats()  # the thread has turned to something else
        assert [gone() for gone in refused] == [None] * 5
    finally:
        gc.enable()


async def test_too_many_bytes_are_refused_until_they_are_gone(small: Store, clock: ManualClock) -> None:
    await put_one(small, new("big", b"x" * 5_000))
    with pytest.raises(StoreFull, match="5000 bytes wait, the limit is 1000"):
        await put_ids(small, "a")
    await end_all(small, clock, Verdict.DEAD)
    assert await put_one(small, new("a")) is PutOutcome.STORED


async def test_a_put_is_taken_whole_or_not_at_all(small: Store, clock: ManualClock) -> None:
    await put_ids(small, "a", "b")
    await put_ids(small, "c", "d", "e", "f")
    with pytest.raises(StoreFull):
        await put_ids(small, "a", "g")
    assert ids(await claim(small, clock)) == ["a", "b", "c", "d", "e", "f"]


async def test_what_adds_no_record_is_answered_while_full(small: Store, clock: ManualClock) -> None:
    await put_one(small, guarded("a", GuardMode.SNAPSHOT, m=b"1"))
    await put_ids(small, "b", "c")
    assert await put_one(small, new("b", channel="again")) is PutOutcome.DUPLICATE
    assert await put_one(small, guarded("d", GuardMode.SNAPSHOT, m=b"1")) is PutOutcome.SUPPRESSED
    with pytest.raises(StoreFull):
        await put_one(small, guarded("e", GuardMode.SNAPSHOT, m=b"2"))
    await end_all(small, clock, Verdict.DELIVERED)
    refused_before = guarded("e", GuardMode.SNAPSHOT, m=b"2")
    assert await put_one(small, refused_before) is PutOutcome.STORED, "the refusal kept no members"


async def test_what_the_store_has_already_finds_room(small: Store, clock: ManualClock) -> None:
    """A held record and a dead letter come back to the queue: refusing them would lose them."""
    await put_ids(small, "dead")
    await end_all(small, clock, Verdict.DEAD)
    await put_ids(small, "a", "b", "c")
    assert await small.hold("storm", new("held")) == 1
    assert len(await small.release_held(key="storm")) == 1
    assert await small.dead_requeue(None) == 1
    assert (await small.stats()).waiting == 5


async def test_a_full_store_refuses_one_of_a_group_and_not_its_neighbours(small: Store) -> None:
    await put_ids(small, "a", "b", "c")
    puts = [put_one(small, new("d")), put_one(small, new("b", channel="again")), small.set_meta("k", b"v")]
    refused, copy, _ = await asyncio.gather(*puts, return_exceptions=True)
    assert isinstance(refused, StoreFull)
    assert copy is PutOutcome.DUPLICATE
    assert await small.get_meta("k") == b"v"


@pytest.mark.parametrize(
    ("waiting", "size", "share"), [(0, 0, 0.0), (3, 0, 1.0), (1, 900, 0.9), (6, 900, 2.0), (0, 1_500, 1.5)]
)
def test_the_share_is_that_of_the_fuller_limit(waiting: int, size: int, share: float) -> None:
    assert LIMITS.share(waiting, size) == pytest.approx(share)
