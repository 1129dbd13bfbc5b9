"""The janitor forgets by age and number, archives dead letters first, and outlives trouble."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from collector.carrying import record_of
from outbox.clock import ManualClock
from outbox.dead_archive import DeadArchive
from outbox.janitor import Janitor, JanitorConfig
from outbox.kept import KeptRecord
from outbox.store import Store, StoreUnavailable
from outbox.verdict import Verdict
from tests.outbox.records import blob_of, end_all, new, put_ids
from tests.support.faults import FaultPoint, FaultyStore

DAY_S = 24 * 3600
EVENT_ID = "0b7a9c1e-0000-5000-8000-000000000001"


def janitor(store: Store, clock: ManualClock, folder: Path, failures: list[str], **config: int) -> Janitor:
    archive = DeadArchive(folder)
    return Janitor(
        store,
        clock,
        JanitorConfig(rows_per_call_max=7, **config),
        export=archive,
        export_blob=archive.keep_blob,
        on_failure=failures.append,
    )


def archived(folder: Path) -> list[str]:
    lines = [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
    return [json.loads(line)["id"] for line in lines]


async def test_dead_blobs_are_set_aside_before_they_go(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    old, young, gone = (blob_of(tmp_path / "spool", content) for content in (b"old", b"young", b"gone"))
    await store.put([new("a", blobs=(old, gone))])
    await end_all(store.blobs, clock, Verdict.DEAD)
    store.blobs.path_of(gone.sha256).unlink()
    clock.advance(DAY_S)
    await store.put([new("b", blobs=(young,))])
    await end_all(store.blobs, clock, Verdict.DEAD)
    clock.advance(29.5 * DAY_S)
    failures: list[str] = []
    folder = tmp_path / "archive"
    (tmp_path / "in-the-way").write_text("")
    assert await janitor(store, clock, tmp_path / "in-the-way", failures).tick() == 0
    assert len(failures) == 1, "what cannot be set aside stays"
    assert await janitor(store, clock, folder, failures).tick() == 2
    assert {path.name: path.read_bytes() for path in (folder / "dead-blobs").iterdir()} == {
        old.sha256: b"old"
    }
    assert [blob.sha256 for blob in await store.blobs.dead_list(limit=10)] == [young.sha256]


async def test_dead_letters_are_archived_before_they_go(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    await store.put([new(f"{n:02}", bytes([n]) * 3, digest=b"d", label="l") for n in range(20)])
    await end_all(store, clock, Verdict.DEAD, status=422, reason="why")
    clock.advance(DAY_S)
    await put_ids(store, "young")
    await end_all(store, clock, Verdict.DEAD)
    clock.advance(29.5 * DAY_S)
    failures: list[str] = []
    assert await janitor(store, clock, folder, failures).tick() == 20
    assert [dead.id for dead in await store.dead_list(limit=100)] == ["young"]
    assert archived(folder) == [f"{n:02}" for n in range(20)]
    (path,) = folder.iterdir()
    assert (path.name, stat.S_IMODE(path.stat().st_mode)) == ("dead-2026-01.jsonl", 0o600)
    last = json.loads(path.read_text().splitlines()[-1])
    assert base64.b64decode(last["body_base64"]) == b"\x13\x13\x13"
    assert (last["status"], last["reason"], last["digest"], last["label"]) == (422, "why", "64", "l")
    assert failures == []


async def test_the_blobs_of_dead_letters_are_archived_with_them(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    """The backend forgets them too: no event has them."""
    blob = blob_of(tmp_path / "spool", b"picture")
    await store.put([new(f"{n}", blobs=(blob,)) for n in range(2)])
    await end_all(store.blobs, clock, Verdict.DELIVERED)
    await end_all(store, clock, Verdict.DEAD)
    clock.advance(31 * DAY_S)
    folder = tmp_path / "archive"
    assert await janitor(store, clock, folder, []).tick() == 2
    assert not store.blobs.path_of(blob.sha256).exists()
    (path,) = folder.glob("*.jsonl")
    for line in path.read_text().splitlines():
        (kept,) = record_of(json.loads(line) | {"id": EVENT_ID}).blobs
        assert (kept.sha256, kept.bytes, kept.mime) == (blob.sha256, 7, "image/jpeg")
        assert (folder / f"{path.name}.blobs" / kept.sha256).read_bytes() == b"picture"


async def test_too_many_dead_letters_go_oldest_first(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    await put_ids(store, *[f"{n:02}" for n in range(12)])
    await end_all(store, clock, Verdict.DEAD)
    assert await janitor(store, clock, tmp_path / "a", [], dead_rows_max=2).tick() == 10
    assert archived(tmp_path / "a") == [f"{n:02}" for n in range(10)]


async def test_a_letter_is_archived_once_also_while_much_else_is_forgotten(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    await put_ids(store, *[f"{n:02}" for n in range(60)])
    await end_all(store, clock, Verdict.DELIVERED)
    await put_ids(store, "dead-1", "dead-2")
    await end_all(store, clock, Verdict.DEAD)
    clock.advance(40 * DAY_S)
    assert await janitor(store, clock, tmp_path / "a", []).tick() == 62
    assert archived(tmp_path / "a") == ["dead-1", "dead-2"]


async def test_a_failing_archive_keeps_the_letters_and_forgets_the_rest(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    await put_ids(store, "a")
    await end_all(store, clock, Verdict.DELIVERED)
    await put_ids(store, "b")
    await end_all(store, clock, Verdict.DEAD)
    clock.advance(40 * DAY_S)
    failures: list[str] = []
    assert await janitor(store, clock, tmp_path / "file", failures).tick() == 1
    stats = await store.stats()
    assert (stats.seen, stats.dead) == (0, 1)
    assert failures
    assert "archive" in failures[0]


async def test_dead_blobs_that_died_anew_hide_no_older_ones(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    """They keep their place, which is in front."""
    blobs = [blob_of(tmp_path / "spool", b"%d" % n) for n in range(8)]
    await store.put([new(f"a{n}", blobs=(blob,)) for n, blob in enumerate(blobs)])
    await end_all(store.blobs, clock, Verdict.DEAD)
    clock.advance(31 * DAY_S)
    assert await store.blobs.dead_requeue([blob.sha256 for blob in blobs[:7]]) == 7
    await end_all(store.blobs, clock, Verdict.DEAD)
    assert await janitor(store, clock, tmp_path / "archive", []).tick() == 1
    assert [blob.sha256 for blob in await store.blobs.dead_list(limit=10)] == [b.sha256 for b in blobs[:7]]


async def test_one_tick_is_bounded(store: Store, clock: ManualClock, tmp_path: Path) -> None:
    await put_ids(store, *[f"{n}" for n in range(30)])
    await end_all(store, clock, Verdict.DELIVERED)
    clock.advance(40 * DAY_S)
    busy = janitor(store, clock, tmp_path, [], calls_per_tick_max=2)
    assert [await busy.tick() for _ in range(4)] == [14, 14, 2, 0]


async def test_it_ticks_by_the_clock_and_outlives_a_store_that_is_away(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    ticks: list[str] = []

    def trip(point: FaultPoint, name: str) -> None:
        if name == "checkpoint" and point is FaultPoint.BEFORE_ANSWER:
            ticks.append(name)
            if len(ticks) == 2:
                raise StoreUnavailable("locked")

    failures: list[str] = []
    stop = asyncio.Event()
    running = asyncio.create_task(janitor(FaultyStore(store, trip), clock, tmp_path, failures).run(stop))
    async with asyncio.timeout(5):
        for wanted in range(1, 5):
            while len(ticks) < wanted or not clock.waiting:
                await asyncio.sleep(0.001)
            assert len(ticks) == wanted
            clock.advance(60)
    stop.set()
    await running
    assert failures == ["locked"]


async def test_the_archive_appends_by_month_of_death(tmp_path: Path, clock: ManualClock) -> None:
    def letter(id_: str, days: int) -> KeptRecord:
        return KeptRecord(
            rowid=1,
            id=id_,
            digest=b"",
            state="dead",
            label="",
            channel="",
            status=None,
            reason="",
            attempts=1,
            created_at=clock.now(),
            at=clock.now() + timedelta(days=days),
            body=b"",
        )

    letters: Sequence[KeptRecord] = [letter("jan", 0), letter("feb", 31), letter("jan2", 1)]
    archive = DeadArchive(tmp_path / "new")
    await archive(letters)
    await archive(letters[:1])
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "dead-2026-01.jsonl",
        "dead-2026-02.jsonl",
    ]
    assert archived(tmp_path / "new") == ["jan", "jan2", "jan", "feb"]
