"""Heartbeats, the scope table and the alerts that follow from them (contract §8)."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from contracts.heartbeat import Depth, InstanceState, encode_heartbeat, heartbeat_path
from ingest.config import IngestConfig
from ingest.statements import KEEP_HEARTBEAT, RETIRE_COLLECTOR
from ingest.watch import Alert, Beat, due_alerts, judged
from tests.ingest.backend import Backend, an_id, backend, beat, event, signed

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
CONFIG = IngestConfig(dsn="postgresql://", secrets=(b"secret",))


async def test_a_heartbeat_is_kept_and_answered_with_the_scope_table(dsn: str) -> None:
    async with backend(dsn) as b:
        assert (await b.post_heartbeat(beat())).json() == {"scopes": [], "keeps_coverage": True}
        for scope in ("acme", "other"):
            body = event(gateway="evolution", instance="vendas", scope=scope)
            assert (await b.post(an_id(), body)).status_code == 201
        answer = await b.post_heartbeat(beat(seq=2))
        assert answer.status_code == 200
        table = [{"gateway": "evolution", "instance": "vendas", "scope": "acme"}]
        assert answer.json() == {"scopes": table, "keeps_coverage": True}
        (row,) = await b.fetch("SELECT name, boot, beat, report->>'seq' AS seq FROM lake.collectors")
        assert row == {"name": "edge-1", "boot": "b1", "beat": 2, "seq": "2"}


async def test_an_older_beat_of_the_same_boot_changes_nothing(dsn: str) -> None:
    async with backend(dsn) as b:
        for boot, seq in (("b1", 5), ("b1", 4), ("b2", 1)):
            await b.post_heartbeat(beat(boot=boot, seq=seq))
            (row,) = await b.fetch("SELECT boot, beat FROM lake.collectors")
            assert (row["boot"], row["beat"]) == {"b1": ("b1", 5), "b2": ("b2", 1)}[boot]


async def test_what_is_no_heartbeat_is_refused(dsn: str) -> None:
    async with backend(dsn) as b:
        path, event_id = heartbeat_path("edge-1"), an_id()
        unsigned = await b.client.post(path, content=b"{}", headers={"X-Event-Id": event_id})
        assert unsigned.status_code == 401
        for body, status in ((b"{", 400), (b"{}", 422), (b"[]", 422), (b"x" * (8 * 1024 * 1024 + 1), 413)):
            answer = await b.client.post(path, content=body, headers=signed(event_id, body))
            assert (answer.status_code, answer.headers["content-type"]) == (
                status,
                "application/problem+json",
            )
        assert (await b.post_heartbeat(beat(), name="edge-2")).status_code == 422
        assert await b.fetch("SELECT 1 FROM lake.collectors") == []


async def look(b: Backend) -> list[tuple[str, str, bool, int]]:
    """One round of the watch; the alerts as (name, subject, open, repeated)."""
    connection = await asyncpg.connect(b.dsn)
    try:
        await b.service.desk.look_once()
        rows = await connection.fetch("SELECT * FROM lake.alerts ORDER BY id")
        return [(r["name"], r["subject"], r["resolved_at"] is None, r["repeated_count"]) for r in rows]
    finally:
        await connection.close()


async def test_what_a_retired_collector_had_is_over(dsn: str) -> None:
    async with backend(dsn, silent_after_s=0.001, disconnected_after_s=0.001) as b:
        await b.post_heartbeat(beat(depth=Depth(waiting=20_000)))
        assert await look(b) == [("collector.silent", "edge-1", True, 0)]
        await b.fetch(RETIRE_COLLECTOR, "edge-1", 0.0)
        assert await look(b) == [("collector.silent", "edge-1", False, 0)]


async def test_an_alert_is_raised_once_repeated_slowly_and_resolved(dsn: str) -> None:
    async with backend(dsn) as b:
        await b.post_heartbeat(beat(depth=Depth(waiting=20_000)))
        assert await look(b) == [("collector.backlog", "edge-1", True, 0)]
        assert await look(b) == [("collector.backlog", "edge-1", True, 0)]
        await b.fetch("UPDATE lake.alerts SET repeated_at = now() - interval '1 day'")
        assert await look(b) == [("collector.backlog", "edge-1", True, 1)]
        assert await look(b) == [("collector.backlog", "edge-1", True, 1)]
        await b.post_heartbeat(beat(seq=2))
        assert await look(b) == [("collector.backlog", "edge-1", False, 1)]
        await b.post_heartbeat(beat(seq=3, depth=Depth(waiting=20_000)))
        assert (await look(b))[1:] == [("collector.backlog", "edge-1", True, 0)]


async def test_a_collectors_disk_that_fills_up_raises_an_alert_until_there_is_room(dsn: str) -> None:
    async with backend(dsn) as b:
        for seq, free, is_open in ((1, 1 << 29, True), (2, 1 << 31, False)):
            await b.post_heartbeat(beat(seq=seq, disk_free_bytes=free))
            assert await look(b) == [("collector.disk", "edge-1", is_open, 0)]


async def test_a_collector_that_falls_silent_keeps_its_other_alerts(dsn: str) -> None:
    async with backend(dsn) as b:
        await b.post_heartbeat(beat(depth=Depth(waiting=20_000)))
        await look(b)
        await b.fetch("UPDATE lake.collectors SET last_seen_at = now() - interval '91 seconds'")
        assert await look(b) == [
            ("collector.backlog", "edge-1", True, 0),
            ("collector.silent", "edge-1", True, 0),
        ]
        await b.post_heartbeat(beat(seq=2))
        assert await look(b) == [
            ("collector.backlog", "edge-1", False, 0),
            ("collector.silent", "edge-1", False, 0),
        ]


async def test_another_scope_for_a_known_instance_raises_an_alert_once(dsn: str) -> None:
    async with backend(dsn) as b:
        for scope in ("acme", "acme", "other", "other"):
            await b.post(an_id(), event(gateway="g", instance="i", scope=scope))
        assert await look(b) == [("scope.changed", "g/i", True, 0)]


async def test_a_report_of_another_release_does_not_end_the_watch(dsn: str) -> None:
    async with backend(dsn) as b:
        await b.post_heartbeat(beat())
        await b.fetch("""UPDATE lake.collectors SET report = '{"name": "edge-1", "depth": "deep"}'""")
        assert await look(b) == []
        await b.fetch("UPDATE lake.collectors SET last_seen_at = now() - interval '91 seconds'")
        assert await look(b) == [("collector.silent", "edge-1", True, 0)]


ODD = pytest.mark.parametrize(
    "odd",
    [
        {"uptime_s": 1e11},
        {"uptime_s": -1e12},
        {"oldest_age_s": 1e308},
        {"depth": {"waiting": 10**30}},
        {"disk_free_bytes": -(10**30)},
        {"seq": 2**63},
    ],
    ids=str,
)
"""Numbers that no clock, disk or counter tells."""


def odd_report(odd: dict[str, Any]) -> bytes:
    heard = InstanceState(gateway="g", instance="i", state="open", last_event_at=ago(days=1))
    usual = beat(name="odd", depth=Depth(waiting=1), instances=(heard,))
    return json.dumps({**json.loads(encode_heartbeat(usual)), **odd}).encode()


@ODD
async def test_what_no_collector_says_is_refused(dsn: str, odd: dict[str, Any]) -> None:
    async with backend(dsn) as b:
        report, event_id = odd_report(odd), an_id()
        answer = await b.client.post(heartbeat_path("odd"), content=report, headers=signed(event_id, report))
        assert answer.status_code == 422


@ODD
async def test_it_stops_nobodys_watch_once_it_is_stored(dsn: str, odd: dict[str, Any]) -> None:
    async with backend(dsn) as b:
        await b.fetch(KEEP_HEARTBEAT, "odd", "b1", 1, odd_report(odd).decode())
        await b.post_heartbeat(beat(depth=Depth(waiting=20_000)))
        assert await look(b) == [("collector.backlog", "edge-1", True, 0)]


async def test_a_name_without_end_stops_nobodys_watch(dsn: str) -> None:
    endless = random.Random(1).randbytes(4000).hex()
    closed = InstanceState(gateway="g", instance=endless, state="close", state_at=ago(days=1))
    async with backend(dsn) as b:
        await b.post_heartbeat(beat(name="odd", instances=(closed,)))
        await b.post_heartbeat(beat(depth=Depth(waiting=20_000)))
        assert await look(b) == [("collector.backlog", "edge-1", True, 0)]


async def test_alerts_do_not_wait_for_a_month_that_cannot_be_made(dsn: str) -> None:
    async with backend(dsn) as b:
        await b.post_heartbeat(beat(depth=Depth(waiting=20_000)))
        await b.fetch("DROP TABLE lake.whatsapp_event_logs_future")
        assert await look(b) == [("collector.backlog", "edge-1", True, 0)]


async def test_heartbeats_count_as_bodies_in_flight(dsn: str) -> None:
    async with backend(dsn, body_bytes_max=1000, bodies_bytes_max=1000) as b:
        assert (await b.post_heartbeat(beat(version="x" * 900))).status_code == 503
        assert (await b.post_heartbeat(beat())).status_code == 200
        assert b.service.doors.budget.bytes_used == 0


def ago(**delta: float) -> str:
    return (NOW - timedelta(**delta)).isoformat()


def told(**members: Any) -> InstanceState:
    return InstanceState(gateway="g", instance="i", **members)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (told(state="open", last_event_at=ago(minutes=1)), None),
        (told(state="open", last_event_at=ago(hours=7)), None),
        (told(state="open"), None),
        (told(state="WORKING", state_at=ago(hours=1)), None),
        (told(state="CONNECTED", state_at=ago(hours=1)), None),
        (told(state="close", state_at=ago(minutes=4)), None),
        (told(state="close", state_at=ago(minutes=6)), "instance.disconnected"),
        (told(state="connecting", state_at=ago(hours=1)), "instance.disconnected"),
        (told(state="close", state_at="yesterday"), None),
        (told(last_event_at=ago(hours=9)), None),
    ],
)
def test_which_state_of_an_instance_alerts(state: InstanceState, expected: str | None) -> None:
    alerts = due_alerts([Beat(name="edge-1", age_s=1, report=beat(instances=(state,)))], CONFIG, NOW)
    assert [(alert.name, alert.subject) for alert in alerts] == (
        [(expected, "edge-1/g/i")] if expected else []
    )


def test_which_depth_alerts() -> None:
    def names(**members: Any) -> list[str]:
        return [a.name for a in due_alerts([Beat(name="e", age_s=1, report=beat(**members))], CONFIG, NOW)]

    assert names(depth=Depth(waiting=10_000)) == []
    assert names(depth=Depth(waiting=10_001)) == ["collector.backlog"]
    assert names(depth=Depth(waiting=1), oldest_age_s=301) == ["collector.backlog"]
    assert names(depth=Depth(waiting=0), oldest_age_s=301) == []


def test_a_silent_collector_has_one_alert_and_its_old_words_are_not_judged() -> None:
    old = Beat(name="edge-1", age_s=91, report=beat(depth=Depth(waiting=99_999)))
    assert due_alerts([old], CONFIG, NOW) == [
        Alert(name="collector.silent", subject="edge-1", detail={"age_s": 91})
    ]
    spoken = Beat(name="edge-1", age_s=1, report=beat())
    for name, subject in (("collector.backlog", "edge-1"), ("instance.disconnected", "edge-1/g/i")):
        assert not judged(name, subject, [old], CONFIG)
        assert judged(name, subject, [spoken], CONFIG)
    assert not judged("scope.changed", "g/i", [spoken], CONFIG)
