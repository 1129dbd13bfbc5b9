"""The channel counts in the lake, and what the watch makes of weeks of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from contracts.heartbeat import Coverage, InstanceState
from ingest import coverage_statements as statements
from tests.ingest.backend import Backend, backend, beat

HOUR = "2026-01-31T13:00:00Z"


def counted(count: int, *channels: str, hour: str = HOUR, kind: str = "message", **more: Any) -> Coverage:
    return Coverage(
        gateway="g",
        instance="i",
        hour=hour,
        kind=kind,
        channels=channels or ("webhook",),
        count=count,
        **more,
    )


async def alerts(b: Backend, *names: str) -> list[tuple[str, str, bool]]:
    await b.service.desk.look_once()
    rows = await b.fetch("SELECT name, subject, resolved_at FROM lake.alerts ORDER BY id")
    return [(r["name"], r["subject"], r["resolved_at"] is None) for r in rows if r["name"] in names]


async def test_counts_told_again_late_or_anew_are_kept_once(dsn: str) -> None:
    async with backend(dsn) as b:
        for seq, count in ((1, 5), (2, 5), (3, 9), (2, 5), (4, 3)):
            answer = await b.post_heartbeat(beat(seq=seq, coverage=(counted(count),)))
            assert answer.json()["keeps_coverage"] is True
        for boot in ("b2", "b3"):  # restarts of the same file tell what was not confirmed
            await b.post_heartbeat(beat(boot=boot, coverage=(counted(9), counted(2, kind="call"))))
        await b.post_heartbeat(beat(boot="b4", epoch="another file", coverage=(counted(1),)))
        await b.post_heartbeat(beat(name="edge-2", coverage=(counted(9),)))
        rows = await b.fetch("SELECT collector, kind, records FROM lake.channel_coverage ORDER BY 1, 2")
        assert [tuple(row.values()) for row in rows] == [
            ("edge-1", "call", 2),
            ("edge-1", "message", 10),
            ("edge-2", "message", 9),
        ]
        (report,) = await b.fetch("SELECT report ? 'coverage' AS has FROM lake.collectors LIMIT 1")
        assert report["has"] is False


async def test_the_view_tells_what_each_channel_brought_and_how_far_apart(dsn: str) -> None:
    async with backend(dsn) as b:
        both, three = ("rabbitmq", "webhook"), ("jsonl", "rabbitmq", "webhook")
        await b.post_heartbeat(
            beat(
                coverage=(
                    counted(7, "webhook"),
                    counted(3, "rabbitmq"),
                    counted(2, "jsonl"),
                    counted(5, *both, delay_ms_max=900, delays=(0, 1, 0, 4)),
                    counted(1, *three, delay_ms_max=2, delays=(0, 1)),
                    counted(4, "webhook", kind="call"),
                )
            )
        )
        call, message = await b.fetch("SELECT * FROM lake.channel_coverage ORDER BY kind")
        assert message == {
            "collector": "edge-1", "gateway": "g", "instance": "i", "kind": "message", "records": 18,
            "hour": datetime(2026, 1, 31, 13, tzinfo=UTC), "both": 6, "only_webhook": 7, "only_rabbitmq": 3,
            "neither": 2, "delay_ms_p50": 8, "delay_ms_max": 900,
        }  # fmt: skip
        assert (call["only_webhook"], call["delay_ms_p50"], call["delay_ms_max"]) == (4, None, None)


async def test_counts_that_make_no_sense_do_no_harm(dsn: str) -> None:
    async with backend(dsn) as b:
        odd = (
            counted(1, hour="yesterday"),
            counted(1, hour="9999-01-01T00:00:00Z"),
            counted(1, kind="call\x00"),
            counted(3),
            counted(3),
            counted(3, hour="2026-01-31T10:00:00-03:00"),
            counted(3, hour="1769864400"),
            counted(3, hour="2026-W05-6T13:00Z"),
        )
        assert (await b.post_heartbeat(beat(coverage=odd))).status_code == 200
        rows = await b.fetch("SELECT kind, records FROM lake.channel_coverage ORDER BY kind")
        assert [tuple(row.values()) for row in rows] == [("call", 1), ("message", 3)]
        for count in (-1, 2**60):
            assert (await b.post_heartbeat(beat(seq=2, coverage=(counted(count),)))).status_code == 422


async def test_sums_without_end_do_not_stop_the_watch(dsn: str) -> None:
    async with backend(dsn) as b:
        now = datetime.now(UTC)
        hours = [(now - timedelta(weeks=week)).strftime("%Y-%m-%dT%H:00:00Z") for week in range(5)]
        for seq, hour in enumerate(hours):
            endless = tuple(counted(2**53, f"c{n}", "rabbitmq", hour=hour) for n in range(1100))
            both = counted(100, "rabbitmq", "webhook", hour=hour)
            await b.post_heartbeat(beat(seq=seq, coverage=(*endless, both)))
        quiet = InstanceState(
            gateway="g", instance="i", state="open", last_event_at=(now - timedelta(hours=2)).isoformat()
        )
        await b.post_heartbeat(beat(seq=9, uptime_s=1e6, instances=(quiet,)))
        assert await alerts(b, "channels.diverge") == [("channels.diverge", "edge-1/g/i", True)]


async def test_old_counts_are_forgotten(dsn: str) -> None:
    async with backend(dsn, channel_counts_days=60) as b:
        recent = datetime.now(UTC) - timedelta(days=59)
        await b.post_heartbeat(
            beat(coverage=(counted(1, hour="2020-01-01T00:00:00Z"), counted(1, hour=recent.isoformat())))
        )
        await b.service.desk.look_once()
        assert len(await b.fetch("SELECT 1 FROM lake.channel_counts")) == 1


async def test_channels_that_diverge_raise_an_alert_until_a_day_has_gone(dsn: str) -> None:
    async with backend(dsn) as b:
        recent = (datetime.now(UTC) - timedelta(hours=2)).isoformat()
        await b.post_heartbeat(
            beat(
                coverage=(
                    counted(100, "rabbitmq", "webhook", hour=recent),
                    counted(9, "webhook", hour=recent),
                    counted(500, "webhook", hour=recent, kind="contact"),  # never by RabbitMQ: not subscribed
                    counted(1000, "rabbitmq", "webhook", hour=recent, kind="message.status"),
                    counted(50, "rabbitmq", hour=recent, kind="message.status"),  # 5 % is usual
                )
            )
        )
        assert await alerts(b, "channels.diverge") == []
        await b.fetch("UPDATE lake.channel_counts SET count = 11 WHERE count = 9")
    async with backend(dsn) as b:  # the next look is minutes away, or another process's
        expected = ("channels.diverge", "edge-1/g/i", True)
        assert await alerts(b, "channels.diverge") == [expected]
        assert await alerts(b, "channels.diverge") == [expected]  # not looked at in this round, so not over
        (row,) = await b.fetch("SELECT detail->>'only_webhook' AS lost FROM lake.alerts")
        assert row["lost"] == "11"
        await b.fetch("UPDATE lake.channel_counts SET hour = hour - interval '25 hours'")
    async with backend(dsn) as b:
        assert await alerts(b, "channels.diverge") == [("channels.diverge", "edge-1/g/i", False)]


async def weeks(b: Backend, kind: str, an_hour: int, *, number: int = 6) -> None:
    """So many events each hour of the weeks before this one."""
    connection = await asyncpg.connect(b.dsn)
    await connection.execute(
        """
        INSERT INTO lake.channel_counts (gateway, instance, kind, hour, collector, epoch, channels, count)
        SELECT 'g', 'i', $1, h, 'edge-1', 'e', '{webhook}', $2
          FROM generate_series(date_trunc('hour', now()) - make_interval(weeks => $3),
                               date_trunc('hour', now()) - interval '12 hours', interval '1 hour') h
        """,
        kind,
        an_hour,
        number,
    )
    await connection.close()


def state(*, message: float, call: float, now: datetime | None = None, **more: str) -> InstanceState:
    """An open instance that has brought no message and no call for so many hours."""
    now = now or datetime.now(UTC)
    kinds = {"message": now - timedelta(hours=message), "call": now - timedelta(hours=call)}
    return InstanceState(
        gateway="g",
        instance="i",
        state=more.get("state", "open"),
        last_event_at=max(kinds.values()).isoformat(),
        kinds={kind: at.isoformat() for kind, at in kinds.items()},
    )


async def test_a_kind_that_falls_silent_and_then_all_of_the_instance(dsn: str) -> None:
    names = ("instance.deaf", "instance.silent")
    deaf, silent = ("instance.deaf", "edge-1/g/i message"), ("instance.silent", "edge-1/g/i")
    async with backend(dsn) as b:
        await weeks(b, "message", 60)
        await weeks(b, "call", 1)

        async def tell(seq: int, of: InstanceState, uptime_s: float = 1e6) -> None:
            await b.post_heartbeat(beat(seq=seq, boot=f"b{seq}", uptime_s=uptime_s, instances=(of,)))

        await tell(1, state(message=0.1, call=10))
        assert await alerts(b, *names) == []
        await tell(2, state(message=3, call=0.1))
        assert await alerts(b, *names) == [(*deaf, True)]
        await tell(3, state(message=3, call=2.9))
        assert await alerts(b, *names) == [(*deaf, True), (*silent, True)]
        await tell(4, state(message=3, call=2.9), uptime_s=60)  # a restart of the collector hears nothing
        assert await alerts(b, *names) == [(*deaf, True), (*silent, True)]
        ahead = datetime.now(UTC) + timedelta(minutes=1)
        await tell(5, state(message=3, call=0, now=ahead))
        assert await alerts(b, *names) == [(*deaf, True), (*silent, False)]
        await tell(6, state(message=0, call=0, now=ahead))
        assert await alerts(b, *names) == [(*deaf, False), (*silent, False)]


async def test_a_new_instance_has_no_normal_yet_and_nobody_is_told(dsn: str) -> None:
    async with backend(dsn) as b:
        await weeks(b, "message", 60, number=2)
        await b.post_heartbeat(beat(uptime_s=1e6, instances=(state(message=9, call=9),)))
        assert await alerts(b, "instance.silent", "instance.deaf") == []


async def test_silences_are_compared_a_bounded_number_a_round(dsn: str) -> None:
    async with backend(dsn, silences_per_round_max=1) as b:
        await weeks(b, "message", 60)
        await b.post_heartbeat(beat(uptime_s=1e6, instances=(state(message=9, call=9),)))
        rounds = [await alerts(b, "instance.silent", "instance.deaf") for _ in range(3)]
        assert rounds[-1] == [("instance.silent", "edge-1/g/i", True)] or len(rounds[-1]) == 2
        assert len(rounds[0]) <= 1


async def plan(dsn: str, statement: str, *arguments: object) -> str:
    connection = await asyncpg.connect(dsn, server_settings={"plan_cache_mode": "force_generic_plan"})
    try:
        rows = await connection.fetch(f"EXPLAIN {statement}", *arguments)
        return "\n".join(row[0] for row in rows)
    finally:
        await connection.close()


@pytest.fixture
async def filled(dsn: str) -> str:
    connection = await asyncpg.connect(dsn)
    await connection.execute("""
        INSERT INTO lake.channel_counts (gateway, instance, kind, hour, collector, epoch, channels, count)
        SELECT 'g', 'i' || n % 20, 'k' || n % 5, timestamptz '2026-01-01' + make_interval(hours => n / 20),
               'c', 'e', '{webhook}', 1
          FROM generate_series(0, 60000) n
    """)
    await connection.execute("ANALYZE lake.channel_counts")
    await connection.close()
    return dsn


async def test_the_weeks_before_are_read_by_short_ranges_of_the_key(filled: str) -> None:
    now = datetime(2026, 2, 1, tzinfo=UTC)
    question: tuple[list[object], ...] = ([0], ["g"], ["i1"], ["k1"])
    for statement, more in ((statements.FIRST_HOURS, ()), (statements.COUNTS_OF_HOURS, ([now], [now]))):
        told = await plan(filled, statement, *question, *more)
        assert "Seq Scan" not in told, told
        assert "channel_counts_pkey" in told
