"""What every store promises of blobs: before their records, once a sha256, gone when nobody needs them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from outbox.clock import ManualClock
from outbox.memory import MemoryStore
from outbox.record import NewBlob, PutOutcome
from outbox.sqlite import open_sqlite
from outbox.store import PruneLimits, Store, StoreFull, StoreLimits
from outbox.verdict import Verdict
from tests.outbox.records import (
    blob_of,
    claim,
    end_all,
    ended,
    ids,
    later,
    marked_lost,
    new,
    put_ids,
    put_one,
    sha256_of,
)

PICTURE, SOUND = b"picture" * 1_000, b"sound" * 1_000


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def files_of(store: Store) -> list[str]:
    """What is in the folder of blobs."""
    folder = store.blobs.path_of("0" * 64).parent
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


async def test_a_record_is_claimed_only_after_its_blobs(
    store: Store, clock: ManualClock, spool: Path
) -> None:
    freed: list[bool] = []
    store.blobs.when_freed(lambda: freed.append(True))
    picture, sound = blob_of(spool, PICTURE), blob_of(spool, SOUND, "audio/ogg")
    await store.put([new("a", blobs=(picture, sound)), new("b")])
    assert ids(await claim(store, clock)) == ["b"]
    assert await store.next_due() is None
    first, second = await claim(store.blobs, clock)
    assert (first.id, first.label, first.body) == (picture.sha256, "image/jpeg", b"")
    assert store.blobs.path_of(first.id).read_bytes() == PICTURE
    assert not picture.path.exists()
    assert (await store.stats()).blobs_waiting == 2
    await store.blobs.settle([ended(first, Verdict.DELIVERED, clock.now())])
    assert await claim(store, clock) == [], "it waits for the other one, too"
    assert not freed[1:]
    await store.blobs.settle([ended(second, Verdict.DELIVERED, clock.now())])
    assert freed
    assert ids(await claim(store, clock)) == ["a"]


async def test_a_claimed_blob_is_nobody_elses(store: Store, clock: ManualClock, spool: Path) -> None:
    await store.put([new(id_, blobs=(blob_of(spool, PICTURE),)) for id_ in ("a", "b")])
    assert (await store.stats()).bytes == len(PICTURE) + 4
    (old,) = await claim(store.blobs, clock)
    assert await claim(store.blobs, clock) == []
    assert await store.blobs.next_due() is None
    assert await store.blobs.release([old]) == 1
    (held,) = await claim(store.blobs, clock)
    assert await store.blobs.settle([ended(old, Verdict.DEAD, clock.now())]) == 0
    assert await store.blobs.settle([ended(held, Verdict.DELIVERED, clock.now())]) == 1


async def test_the_same_blob_is_uploaded_once_for_all_who_wait(
    store: Store, clock: ManualClock, spool: Path
) -> None:
    await store.put([new(id_, blobs=(blob_of(spool, PICTURE),)) for id_ in ("a", "b")])
    assert await end_all(store.blobs, clock, Verdict.DELIVERED) == 1
    assert files_of(store) == [sha256_of(PICTURE)], "two records still refer to it"
    a, b = await claim(store, clock)
    await store.settle([ended(a, Verdict.DELIVERED, clock.now())])
    assert files_of(store) == [sha256_of(PICTURE)]
    await store.settle([ended(b, Verdict.DELIVERED, clock.now())])
    assert files_of(store) == []
    stats = await store.stats()
    assert (stats.bytes, stats.blobs_waiting, stats.waiting) == (0, 0, 0)


async def test_a_blob_that_was_delivered_is_asked_for_again_when_another_record_needs_it(
    store: Store, clock: ManualClock, spool: Path
) -> None:
    await put_one(store, new("a", blobs=(blob_of(spool, PICTURE),)))
    await end_all(store.blobs, clock, Verdict.DELIVERED)
    await put_one(store, new("b", blobs=(blob_of(spool, PICTURE),)))
    assert ids(await claim(store, clock)) == ["a"], "b waits: the other side may have forgotten the blob"
    assert await end_all(store.blobs, clock, Verdict.DELIVERED) == 1
    assert ids(await claim(store, clock)) == ["b"]


async def test_one_path_in_two_records_and_one_blob_under_two_paths(
    store: Store, clock: ManualClock, spool: Path
) -> None:
    shared = blob_of(spool, PICTURE)
    again = blob_of(spool, PICTURE)
    await store.put([new("a", blobs=(shared,)), new("b", blobs=(shared, again))])
    assert files_of(store) == [shared.sha256]
    assert list(spool.iterdir()) == []
    await end_all(store.blobs, clock, Verdict.DELIVERED)
    assert ids(await claim(store, clock)) == ["a", "b"]


async def test_what_is_not_put_leaves_no_file(store: Store, spool: Path) -> None:
    await put_one(store, new("a"))
    assert await put_one(store, new("a", blobs=(blob_of(spool, PICTURE),))) is PutOutcome.DUPLICATE
    await _until_gone(store)
    with pytest.raises(ZeroDivisionError):
        await store.put([new("b", blobs=(blob_of(spool, PICTURE),)), new(lambda _: str(1 // 0))])
    await _until_gone(store)
    assert (await store.stats()).blobs_waiting == 0


async def _until_gone(store: Store) -> None:
    await store.stats()  # behind what the put left to do
    assert files_of(store) == []


async def test_a_dead_blob_frees_its_records_marked_lost(
    store: Store, clock: ManualClock, spool: Path
) -> None:
    picture, sound = blob_of(spool, PICTURE), blob_of(spool, SOUND)
    await store.put([new("a", b"A", blobs=(picture, sound)), new("b", b"B", blobs=(picture,))])
    first, second = await claim(store.blobs, clock)
    dead = ended(first, Verdict.DEAD, clock.now(), status=422, reason="422 wrong-hash")
    await store.blobs.settle([dead])
    (b,) = await claim(store, clock)
    assert b.body == marked_lost(b"B", picture.sha256, "422 wrong-hash")
    await store.blobs.settle([ended(second, Verdict.DELIVERED, clock.now())])
    (a,) = await claim(store, clock)
    assert a.body == marked_lost(b"A", picture.sha256, "422 wrong-hash")
    stats = await store.stats()
    assert (stats.blobs_dead, stats.bytes) == (1, len(a.body) + len(b.body) + len(SOUND))
    (letter,) = await store.blobs.dead_list(limit=10)
    assert (letter.sha256, letter.status, letter.attempts) == (picture.sha256, 422, 1)
    assert (letter.bytes, letter.reason) == (len(PICTURE), "422 wrong-hash")


async def test_many_wait_for_a_dead_blob(store: Store, clock: ManualClock, spool: Path) -> None:
    picture = blob_of(spool, PICTURE)
    await store.put([new(f"a{n}", blobs=(picture,)) for n in range(250)])
    await end_all(store.blobs, clock, Verdict.DEAD, reason="r")
    records = await claim(store, clock)
    assert len(records) == 250
    assert {record.body for record in records} == {marked_lost(b"{}", picture.sha256, "r")}


async def test_a_dead_blob_is_requeued_or_dropped(store: Store, clock: ManualClock, spool: Path) -> None:
    picture, sound = blob_of(spool, PICTURE), blob_of(spool, SOUND)
    await store.put([new("a", blobs=(picture,)), new("b", blobs=(sound,))])
    await end_all(store.blobs, clock, Verdict.DEAD)
    assert await store.blobs.dead_requeue(["nobody"]) == 0
    assert await store.blobs.dead_requeue([picture.sha256]) == 1
    (again,) = await claim(store.blobs, clock)
    assert (again.id, again.attempts) == (picture.sha256, 0)
    await store.blobs.settle([ended(again, Verdict.DELIVERED, clock.now())])
    assert files_of(store) == [sound.sha256], "its record left as lost: nobody needs it any more"
    assert await store.blobs.dead_drop(None) == 1
    assert files_of(store) == []
    assert await store.blobs.dead_list(limit=10) == []


async def test_a_new_record_gives_a_dead_blob_another_chance(
    store: Store, clock: ManualClock, spool: Path
) -> None:
    picture = blob_of(spool, PICTURE)
    await put_one(store, new("a", blobs=(picture,)))
    store.blobs.path_of(picture.sha256).write_bytes(b"damaged")
    await end_all(store.blobs, clock, Verdict.DEAD)
    await put_one(store, new("b", blobs=(blob_of(spool, PICTURE),)))
    (again,) = await claim(store.blobs, clock)
    assert store.blobs.path_of(again.id).read_bytes() == PICTURE
    assert (await store.stats()).blobs_dead == 0


async def test_a_dead_record_keeps_its_blob_and_waits_for_it_when_requeued(
    store: Store, clock: ManualClock, spool: Path
) -> None:
    picture = blob_of(spool, PICTURE)
    await put_one(store, new("a", blobs=(picture,)))
    await end_all(store.blobs, clock, Verdict.DELIVERED)
    await end_all(store, clock, Verdict.DEAD)
    assert files_of(store) == [picture.sha256]
    assert await store.dead_requeue(None) == 1
    assert await claim(store, clock) == [], "the other side may have forgotten it"
    await end_all(store.blobs, clock, Verdict.DELIVERED)
    assert await end_all(store, clock, Verdict.DEAD) == 1
    assert await store.dead_drop(["a"]) == 1
    assert files_of(store) == []


async def test_pruning_a_dead_record_forgets_its_blob(store: Store, clock: ManualClock, spool: Path) -> None:
    await put_one(store, new("a", blobs=(blob_of(spool, PICTURE),)))
    await end_all(store.blobs, clock, Verdict.DELIVERED)
    await end_all(store, clock, Verdict.DEAD)
    far = clock.now() + timedelta(days=1)
    limits = PruneLimits(
        seen_before=far,
        seen_rows_max=10,
        dead_before=far,
        dead_through=2**60,
        dead_rows_max=10,
        last_rows_max=10,
        rows_per_call_max=10,
    )
    assert await store.prune(limits) == 1
    assert files_of(store) == []


async def test_a_retried_blob_has_a_schedule_of_its_own(
    store: Store, clock: ManualClock, spool: Path
) -> None:
    await store.put([new("a", blobs=(blob_of(spool, PICTURE),)), new("b", blobs=(blob_of(spool, SOUND),))])
    first, second = await claim(store.blobs, clock)
    due_at = later(clock, 60)
    retry = ended(first, Verdict.RETRY, clock.now(), due_at=due_at, reason="away")
    assert await store.blobs.settle([retry, ended(second, Verdict.HALT, clock.now())]) == 2
    assert await store.blobs.settle([retry]) == 0, "it is not held any more"
    assert ids(await claim(store.blobs, clock)) == [second.id]
    assert await store.blobs.next_due() == due_at
    clock.advance(60)
    assert [(r.id, r.attempts) for r in await claim(store.blobs, clock)] == [(first.id, 1)]
    assert await claim(store, clock) == []


async def test_blobs_count_to_the_bytes_that_may_wait(clock: ManualClock, tmp_path: Path) -> None:
    limits = StoreLimits(bytes_max=len(PICTURE), reserve_bytes=0)
    stores: list[Store] = [
        MemoryStore(clock, limits, folder=tmp_path),
        await open_sqlite(tmp_path / "outbox", clock, limits),
    ]
    for store in stores:
        await put_one(store, new("a", blobs=(blob_of(tmp_path / "spool", PICTURE),)))
        with pytest.raises(StoreFull):
            await put_one(store, new("b", blobs=(blob_of(tmp_path / "spool", SOUND),)))
        await store.stats()
        assert files_of(store) == [sha256_of(PICTURE)]
        await end_all(store.blobs, clock, Verdict.DELIVERED)
        await end_all(store, clock, Verdict.DELIVERED)
        await put_ids(store, "c")
        await store.close()


async def test_a_file_that_is_no_blob_is_refused(store: Store, spool: Path) -> None:
    picture = blob_of(spool, PICTURE)
    for sha256, size in ((picture.sha256, 1), ("../" + picture.sha256[3:], len(PICTURE))):
        odd = NewBlob(sha256=sha256, bytes=size, path=picture.path)
        with pytest.raises(ValueError, match="blob"):
            await put_one(store, new("a", blobs=(odd,)))
    assert picture.path.exists()


async def test_what_waits_for_blobs_can_be_looked_at(store: Store, clock: ManualClock, spool: Path) -> None:
    await put_one(store, new("a", blobs=(blob_of(spool, PICTURE),)))
    (record,) = await store.kept("waiting", after=0, limit=10, bytes_max=1_000)
    assert (record.id, record.at) == ("a", clock.now())
    stats = await store.stats()
    assert (stats.waiting, stats.oldest_at) == (1, clock.now())


async def test_what_is_carried_elsewhere_brings_its_blobs(
    store: Store, clock: ManualClock, spool: Path, tmp_path: Path
) -> None:
    await store.put([new("a", blobs=(blob_of(spool, PICTURE),)), new("d", blobs=(blob_of(spool, SOUND),))])
    await end_all(store.blobs, clock, Verdict.DELIVERED)
    (a, d) = await claim(store, clock)
    await store.release([a])
    await store.settle([ended(d, Verdict.DEAD, clock.now())])
    records = [
        *await store.kept("waiting", after=0, limit=10, bytes_max=1_000),
        *await store.kept("dead", after=0, limit=10, bytes_max=1_000),
    ]
    assert [[blob.bytes for blob in record.blobs] for record in records] == [[len(PICTURE)], [len(SOUND)]]
    assert [blob.path.read_bytes() for record in records for blob in record.blobs] == [PICTURE, SOUND]
    elsewhere = await open_sqlite(tmp_path / "elsewhere", clock)
    assert await elsewhere.restore(records) == [PutOutcome.STORED] * 2
    assert await claim(elsewhere, clock) == []
    assert await end_all(elsewhere.blobs, clock, Verdict.DELIVERED) == 2
    assert ids(await claim(elsewhere, clock)) == ["a"]
    assert files_of(elsewhere) == sorted(map(sha256_of, (PICTURE, SOUND))), "a dead letter keeps its blob"
    await elsewhere.close()
