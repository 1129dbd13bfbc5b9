"""What the collector says of its instances: since when one is away; and a start forgets nothing held."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from contracts.translation import Arrival
from outbox.clock import ManualClock
from outbox.record import NewRecord
from outbox.sqlite import open_sqlite
from tests.collector.test_capture import bench, connection


async def test_a_loop_of_reconnects_does_not_begin_anew(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await open_sqlite(tmp_path / "collector", clock)
    made = await bench(tmp_path, store, clock)
    await made.post(connection("open", 0))
    clock.advance(60)
    left_at = clock.now()
    for number in range(1, 9):
        await made.post(connection("close" if number % 2 else "connecting", number))
        clock.advance(60)
    seen = made.capture.instances.seen["evolution", "loja-sp"]
    assert (seen.state, seen.state_at) == ("connecting", left_at)
    await made.post(connection("open", 20))
    assert (seen.state, seen.state_at) == ("open", left_at + timedelta(minutes=8))
    await store.close()


async def test_a_late_copy_of_an_old_state_and_a_file_change_no_state(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await open_sqlite(tmp_path / "collector", clock)
    made = await bench(tmp_path, store, clock)
    for number, state in ((0, "close"), (5, "open"), (0, "close"), (3, "close")):
        await made.post(connection(state, number))
    seen = made.capture.instances.seen["evolution", "loja-sp"]
    assert seen.state == "open"
    gateway = made.capture.gateway("evolution")
    assert gateway is not None
    line = Arrival(
        raw=connection("close", 9),
        gateway=gateway,
        path_instance=None,
        channel="jsonl",
        captured_at=clock.now(),
    )
    assert (await made.capture.take_all([line]))["stored"] == 1
    assert seen.state == "open"
    clock.advance(3600)
    await made.post(connection("close", 2))
    assert seen.state == "close", "the gateway's clock was set back"
    await store.close()


async def test_a_restart_remembers_who_was_away_and_since_when(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await open_sqlite(tmp_path / "collector", clock)
    made = await bench(tmp_path, store, clock)
    await made.post(connection("close", 1))
    await made.capture.instances.save()
    clock.advance(600)
    again = await bench(tmp_path, store, clock)
    assert again.capture.instances.seen == made.capture.instances.seen
    await again.post(connection("connecting", 2))
    seen = again.capture.instances.seen["evolution", "loja-sp"]
    assert seen.state_at == clock.now() - timedelta(seconds=600)
    deleted = (
        b'{"event":"instance.delete","instance":"loja-sp","data":{},"date_time":"2026-01-02T10:00:00.000Z"}'
    )
    assert (await again.post(deleted))["stored"] == 1
    assert not again.capture.instances.seen, "nobody waits for its return"
    await store.close()


async def test_a_start_releases_all_that_storms_held(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await open_sqlite(tmp_path / "collector", clock)
    for number in range(250):
        await store.hold(f"instance {number}", NewRecord(id=f"last-{number}", body=b"{}"))
    await bench(tmp_path, store, clock)
    stats = await store.stats()
    assert (stats.held, stats.waiting) == (0, 250)
    await store.close()
