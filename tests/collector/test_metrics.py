"""What /metrics says is what happened; docs/metrics.md lists all of it; labels stay few; it costs little."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.amqp_state import AmqpState
from collector.config import Limits
from collector.metrics import INSTANCES_LABELLED_MAX, CollectorMetrics, Snapshot
from contracts.configured import CaptureFilter, CapturePolicy
from outbox.store import StoreStats
from tests.collector.running import collector_config, eventually, fixture, message, running
from tests.collector.scripted import Reply, ScriptedBackend
from tests.support.metrics import documented, families, value

PREFIX = "zaplake_collector_"
AMQP = f"{PREFIX}amqp_"


@pytest.fixture
async def backend() -> AsyncIterator[ScriptedBackend]:
    async with ScriptedBackend() as scripted:
        yield scripted


async def test_the_page_tells_what_happened(backend: ScriptedBackend, tmp_path: Path) -> None:
    policy = CapturePolicy(deny=CaptureFilter(kinds=frozenset({"call"})))
    async with running(collector_config(tmp_path, backend.url, capture=policy)) as collector:
        for number in (1, 2, 2):
            await collector.post("/gateways/evolution/loja-sp", message(number))
        await collector.post("/gateways/evolution/loja-sp", fixture("evolution/call-offer.json"))
        await collector.post("/gateways/nobody/x", b"{}")

        async def shipped() -> bool:
            return (await collector.outbox())["waiting"] == 0

        await eventually(shipped, "both are delivered")
        answer = await collector.client.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        page = answer.text
        source = {"channel": "webhook", "gateway": "evolution", "instance": "loja-sp"}
        told = {
            outcome: value(page, f"{PREFIX}events_total", outcome=outcome, **source)
            for outcome in ("stored", "duplicate")
        }
        assert told == {"stored": 2, "duplicate": 1}
        assert value(page, f"{PREFIX}events_total", outcome="denied") == 1
        assert value(page, f"{PREFIX}answers_total", status="200") == 4
        assert value(page, f"{PREFIX}answers_total", status="404") == 1
        assert value(page, f"{PREFIX}commit_seconds_count") == 3
        assert value(page, f"{PREFIX}shipped_records_total", verdict="delivered") == 2
        assert value(page, f"{PREFIX}outbox_records", state="waiting") == 0
        assert value(page, f"{PREFIX}outbox_wal_bytes") > 0
        assert value(page, f"{PREFIX}alerts", alert="door.no_gateway") == 1


async def test_an_outage_shows_as_depth_age_and_pause(backend: ScriptedBackend, tmp_path: Path) -> None:
    backend.script = lambda _request: Reply(503)
    async with running(collector_config(tmp_path, backend.url)) as collector:
        await collector.post("/gateways/evolution/loja-sp", message(1))

        async def is_paused() -> bool:
            return value((await collector.client.get("/metrics")).text, f"{PREFIX}shipping_paused") == 1

        await eventually(is_paused, "the shipper pauses")
        page = (await collector.client.get("/metrics")).text
        assert value(page, f"{PREFIX}outbox_records", state="waiting") == 1
        assert value(page, f"{PREFIX}outbox_oldest_age_seconds") > 0
        assert value(page, f"{PREFIX}shipping_halted") == 0


async def test_the_documented_metrics_are_the_registry(backend: ScriptedBackend, tmp_path: Path) -> None:
    page = ""
    config = collector_config(
        tmp_path, backend.url, limits=Limits(channel_grace_s=0.001, housekeeping_s=0.02)
    )
    async with running(config) as collector:
        await collector.post("/gateways/evolution/loja-sp", message(1))
        await collector.post("/gateways/nobody/x", b"{}")

        async def is_covered() -> bool:
            nonlocal page
            page = (await collector.client.get("/metrics")).text
            return f"{PREFIX}channel_records_total{{" in page

        await eventually(is_covered, "the record's channels are counted")
    without_labels = {name for name, _, labels in families(page) if name.startswith(AMQP) and not labels}
    with_labels = {family for family in families(page) if not family[0].startswith(AMQP)}
    with_labels |= {
        family for family in families(metrics_page(CollectorMetrics())) if family[0].startswith(AMQP)
    }
    assert with_labels == documented(PREFIX)
    assert without_labels == {name for name, _, _ in documented(AMQP)}, "there without a broker too"


async def test_a_brokers_door_is_told_as_it_is() -> None:
    page = metrics_page(CollectorMetrics())
    assert value(page, f"{AMQP}messages_total", gateway="evolution", outcome="received") == 5
    assert value(page, f"{AMQP}messages_total", gateway="evolution", outcome="acked") == 3
    assert value(page, f"{AMQP}consuming") == 1
    assert value(page, f"{AMQP}queue_messages") == 7
    assert value(page, f"{AMQP}last_message_age_seconds") == 60


def test_names_above_the_maximum_are_counted_as_other() -> None:
    metrics = CollectorMetrics()
    for number in range(INSTANCES_LABELLED_MAX + 50):
        for _ in range(2):
            metrics.count("webhook", "evolution", f"i{number}", {"stored": 1})
    page = metrics_page(metrics)
    (events,) = (f for f in text_string_to_metric_families(page) if f.name == f"{PREFIX}events")
    assert len({sample.labels["instance"] for sample in events.samples}) == INSTANCES_LABELLED_MAX + 1
    assert value(page, f"{PREFIX}events_total", instance="other") == 100
    assert value(page, f"{PREFIX}events_total", instance="i0") == 2


def test_a_name_that_is_no_utf_8_does_not_break_the_page() -> None:
    metrics = CollectorMetrics()
    for odd in ("\udcff", "\udcfe"):
        metrics.count("webhook", "evolution", f'lo{odd}ja "a"\n' + "x" * 1000, {"stored": 3})
    page = metrics_page(metrics)
    (events,) = (f for f in text_string_to_metric_families(page) if f.name == f"{PREFIX}events")
    assert [sample.value for sample in events.samples] == [6], (
        "one series: Prometheus refuses a page with two"
    )


def metrics_page(metrics: CollectorMetrics) -> str:
    nothing = StoreStats(
        waiting=0,
        claimed=0,
        dead=0,
        seen=0,
        held=0,
        oldest_at=None,
        bytes=0,
        file_bytes=0,
        wal_bytes=0,
    )
    now = datetime.now(UTC)
    broker = AmqpState(
        gateway="evolution",
        address="amqp://broker.example",
        queue="ours",
        consuming=True,
        received=5,
        acked=3,
        waiting=7,
        consumers=1,
        dead=0,
        last_message_at=now - timedelta(minutes=1),
    )
    return metrics.page(
        Snapshot(
            version="1",
            uptime_s=0.0,
            stats=nothing,
            oldest_age_s=None,
            shipper=None,
            brokers=[broker],
            now=now,
            alerts=(),
        )
    ).decode()


def test_a_histogram_counts_each_bucket_with_all_below_it() -> None:
    metrics = CollectorMetrics()
    for seconds in (0.0, 0.001, 0.0011, 0.3, 99.0):
        metrics.commit_s.observe(seconds)
    page, name = metrics_page(metrics), f"{PREFIX}commit_seconds"
    counted = {le: value(page, f"{name}_bucket", le=le) for le in ("0.001", "0.0025", "0.5", "10.0", "+Inf")}
    assert counted == {"0.001": 2, "0.0025": 3, "0.5": 4, "10.0": 4, "+Inf": 5}
    assert value(page, f"{name}_sum") == pytest.approx(99.3021)
    assert value(page, f"{name}_count") == 5


async def test_another_machine_reads_it_only_when_a_setting_says_so(tmp_path: Path) -> None:
    for is_open, status in ((False, 404), (True, 200)):
        config = collector_config(tmp_path, "http://127.0.0.1:9", metrics_open=is_open)
        async with running(config) as collector:
            for header in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
                told = {header: "for=203.0.113.7"}
                assert (await collector.client.get("/metrics", headers=told)).status_code == status
                assert (await collector.client.get("/status", headers=told)).status_code == 404
            assert (await collector.client.get("/metrics")).status_code == 200
            assert (await collector.client.get("/status")).status_code == 200
