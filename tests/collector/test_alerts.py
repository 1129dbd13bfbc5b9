"""Alerts are said once, resolved once, kept in a bounded ring, and survive a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import structlog

from collector.alerts import AlertLine, Alerts
from outbox.clock import ManualClock
from outbox.memory import MemoryStore
from outbox.sqlite import open_sqlite
from outbox.store import Store, StoreError


def names(alerts: Alerts) -> set[object]:
    """Of the alerts that last."""
    return {alert["alert"] for alert in alerts.active()}


def test_an_alert_is_said_once_while_it_lasts_and_resolved_once() -> None:
    clock = ManualClock()
    alerts = Alerts(now=clock.now, kept_max=100)
    with structlog.testing.capture_logs() as logs:
        for _ in range(1000):
            alerts.raise_("shipper.halted", detail="401")
        assert [alert["count"] for alert in alerts.active()] == [1000]
        alerts.resolve("shipper.halted")
        alerts.resolve("shipper.halted")
        alerts.raise_("shipper.halted", detail="401")
    assert [line["event"] for line in logs] == ["alert.raised", "alert.resolved", "alert.raised"]
    assert [line["what"] for line in alerts.recent()] == ["raised", "resolved", "raised"]


def test_a_fading_alert_ends_when_it_was_quiet_for_long() -> None:
    clock = ManualClock()
    alerts = Alerts(now=clock.now, kept_max=100)
    alerts.raise_("door.secret", "evo", fades=True)
    alerts.raise_("outbox.dead")
    clock.advance(400)
    alerts.raise_("door.secret", "evo", fades=True)
    clock.advance(400)
    alerts.fade()
    assert names(alerts) == {"door.secret", "outbox.dead"}, "a gateway's next retry may take six minutes"
    clock.advance(400)
    alerts.fade()
    assert names(alerts) == {"outbox.dead"}, "this one is resolved by what it is about"


def test_an_alert_that_lasts_is_repeated_slowly_and_whoever_listens_hears_all() -> None:
    clock, heard = ManualClock(), list[tuple[str, ...]]()
    alerts = Alerts(now=clock.now, kept_max=100, repeat_s=3600, on_alert=lambda *told: heard.append(told[:3]))
    for _ in range(4):
        alerts.raise_("outbox.dead", detail="3")
        alerts.repeat()
        clock.advance(1800)
    alerts.resolve("outbox.dead")
    alerts.repeat()
    assert [what for what, _alert, _subject in heard] == ["raised", "repeated", "resolved"]
    assert "3 times since" in alerts.recent()[1]["detail"]


def test_an_alert_that_lasts_tells_what_was_said_last() -> None:
    clock, heard = ManualClock(), list[str]()
    alerts = Alerts(now=clock.now, kept_max=100, repeat_s=3600, on_alert=lambda *told: heard.append(told[3]))
    for detail in ("1 letter", "5000 letters", ""):
        alerts.raise_("outbox.dead", detail=detail)
    assert [alert["detail"] for alert in alerts.active()] == ["5000 letters"]
    clock.advance(3600)
    alerts.repeat()
    assert heard == ["1 letter", "5000 letters (3 times since 2026-01-01 00:00 UTC)"]


def test_a_flood_of_one_alert_does_not_hide_another() -> None:
    alerts = Alerts(now=ManualClock().now, kept_max=10)
    for number in range(50):
        alerts.raise_("instance.unknown", f"evo/{number}")
    for number in range(50):
        alerts.raise_("scope.changed", f"evo/{number}")
    alerts.raise_("shipper.halted", detail="401")
    assert "shipper.halted" in names(alerts)
    assert len(list(alerts.active())) == 12


async def test_the_ring_is_bounded_and_kept() -> None:
    store, clock = MemoryStore(), ManualClock()
    alerts = Alerts(now=clock.now, kept_max=10)
    for number in range(50):
        alerts.raise_("instance.unknown", f"evo/{number}")
    assert len(alerts.recent()) == 10
    assert len(list(alerts.active())) == 10
    await alerts.save(store)
    again = Alerts(now=clock.now, kept_max=10)
    await again.load(store)
    assert again.recent() == alerts.recent()
    assert not list(again.active())


async def test_an_alert_that_comes_while_the_ring_is_written_is_kept_too(tmp_path: Path) -> None:
    store = await open_sqlite(tmp_path)
    alerts = Alerts(now=ManualClock().now, kept_max=10)
    alerts.raise_("outbox.dead")
    saving = asyncio.create_task(alerts.save(store))
    await asyncio.sleep(0)
    assert not saving.done()
    alerts.raise_("shipper.halted", detail="401")
    await saving
    await alerts.save(store)
    assert await kept(store) == alerts.recent()
    await store.close()


async def test_a_ring_that_could_not_be_written_is_written_the_next_time() -> None:
    broken, store = MemoryStore(), MemoryStore()
    await broken.close()
    alerts = Alerts(now=ManualClock().now, kept_max=10)
    alerts.raise_("outbox.dead")
    with pytest.raises(StoreError):
        await alerts.save(broken)
    await alerts.save(store)
    assert await kept(store) == alerts.recent()


async def kept(store: Store) -> list[AlertLine]:
    """What the next process reads."""
    again = Alerts(now=ManualClock().now, kept_max=10)
    await again.load(store)
    return again.recent()
