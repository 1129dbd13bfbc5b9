"""The system's clock never goes back; the manual one moves only by hand."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from outbox.clock import ManualClock, SystemClock


async def test_a_wall_clock_set_back_does_not_park_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, ticks = 1_800_000_000.0, 50.0
    monkeypatch.setattr(time, "monotonic", lambda: ticks)
    clock = SystemClock(lambda: wall)
    assert clock.now() == datetime.fromtimestamp(wall, UTC)
    wall, ticks = wall + 100, ticks + 10
    ahead = clock.now()
    assert ahead == datetime.fromtimestamp(wall, UTC)
    wall, ticks = wall - 3_600, ticks + 5
    assert clock.now() == ahead + timedelta(seconds=5)


async def test_the_system_clock_waits_for_the_event_or_the_time() -> None:
    clock = SystemClock()
    event = asyncio.Event()
    assert not await clock.wait(event, clock.now() + timedelta(seconds=0.01))
    assert not await clock.wait(event, clock.now() - timedelta(seconds=1))
    asyncio.get_running_loop().call_soon(event.set)
    assert await clock.wait(event, None)
    assert 0 <= clock.jitter() < 1


async def test_the_manual_clock_wakes_only_what_is_due() -> None:
    clock = ManualClock()
    event = asyncio.Event()
    early = asyncio.create_task(clock.wait(event, clock.now() + timedelta(seconds=5)))
    late = asyncio.create_task(clock.wait(event, clock.now() + timedelta(seconds=9)))
    await asyncio.sleep(0)
    clock.advance(5)
    assert await early is False
    assert not late.done()
    event.set()
    assert await late is True
