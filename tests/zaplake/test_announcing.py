"""People are told of alerts by apprise: once, in few messages, for certain, and never at others' cost."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import structlog

from contracts.heartbeat import Depth, Heartbeat, encode_heartbeat
from contracts.identity import heartbeat_id
from tests.collector.running import collector_config, eventually, running
from tests.collector.scripted import Reply, ScriptedBackend
from tests.ingest.backend import backend, signed
from tests.support.receiver import Receiver
from tests.zaplake import processes
from zaplake.alert_steps import STEPS
from zaplake.announcement import LINE_CHARS_MAX, LINES_MAX, Announcement, summary
from zaplake.announcing import PENDING_MAX, announcing, retry_after_s
from zaplake.secret import Secret
from zaplake.settings import AlertSettings
from zaplake.trouble import UsageTrouble

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as listening:
        yield listening


def quick(*receivers: Receiver, timeout_s: float = 5.0) -> AlertSettings:
    """Settings for tests that do not want to wait."""
    urls = tuple(Secret(receiver.url) for receiver in receivers)
    return AlertSettings(urls=urls, gather_s=0.05, pause_s=0.05, timeout_s=timeout_s, retry_s=0.05)


def news(what: str, alert: str, subject: str = "", detail: str = "") -> Announcement:
    return Announcement(at=NOW, what=what, alert=alert, subject=subject, detail=detail)


async def told(receiver: Receiver, count: int) -> None:
    await eventually(lambda: len(receiver.told) == count, f"{count} messages in all")


def test_a_text_says_what_where_since_when_and_what_to_do() -> None:
    text = summary("collector edge-1", [news("raised", "shipper.halted", detail="401: signature")])
    assert text.title == "zaplake collector edge-1: shipper.halted raised"
    assert text.body.splitlines() == [
        "12:00:00 UTC raised shipper.halted: 401: signature",
        f"→ shipper.halted: {STEPS['shipper.halted']}",
    ]
    assert text.kind == "warning"
    over = summary("backend", [news("resolved", "collector.silent", "edge-1")])
    assert (over.kind, over.body) == ("success", "12:00:00 UTC resolved collector.silent edge-1")


def test_there_is_a_step_for_each_alert_of_the_runbook_and_for_no_other() -> None:
    page, spans = (processes.ROOT / "docs/operations.md").read_text(encoding="utf-8").split("\n## Traces\n")
    assert "ship.request" in spans, "a table of other names"
    assert set(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|", page, flags=re.MULTILINE)) == set(STEPS)


def test_a_text_holds_no_phone_number_no_second_line_and_has_an_end() -> None:
    text = summary("c", [news("raised", "instance.unknown", "waha/5511900000001\nBcc: x\ud800", "y" * 5000)])
    assert "5511900000001" not in text.body
    assert "waha/…0001 Bcc: x" in text.body
    assert [len(line) <= LINE_CHARS_MAX for line in text.body.splitlines()] == [True] * 2


def test_many_alerts_are_one_text_with_what_is_new_first() -> None:
    told = [news("resolved", "a"), *(news("raised", "instance.unknown", str(n)) for n in range(99))]
    text = summary("c", told, more=7)
    assert text.title == "zaplake c: 107 alerts"
    assert len(text.body.splitlines()) == LINES_MAX + 2, "and one line says what to do"
    assert f"… and {107 - LINES_MAX} more" in text.body
    assert "resolved" not in text.body


def test_the_wait_between_attempts_doubles_up_to_a_quarter_of_an_hour() -> None:
    assert [retry_after_s(n, 5.0) for n in (1, 2, 3, 8, 9, 10_000)] == [5, 10, 20, 640, 900, 900]


async def test_a_collectors_alert_is_told_once_and_so_is_its_end(receiver: Receiver, tmp_path: Path) -> None:
    async with ScriptedBackend() as scripted, announcing(quick(receiver), key="k", who="collector c") as tell:
        scripted.script = lambda _request: Reply(401)
        config = collector_config(tmp_path, scripted.url, heartbeat_s=0.05)
        async with running(config, on_alert=tell) as collector:
            await eventually(lambda: "raised heartbeat.refused: 401" in receiver.text, "it is told")
            sent = len(scripted.requests)
            await eventually(lambda: len(scripted.requests) > sent + 10, "it goes on being refused")
            assert receiver.text.count("heartbeat.refused: 401") == 1
            scripted.script = None
            await eventually(lambda: "resolved heartbeat.refused" in receiver.text, "its end is told")
            assert [message["type"] for message in receiver.told] == ["warning", "success"]
            assert (await collector.client.get("/healthz")).status_code == 200


def beat(seq: int, waiting: int) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a heartbeat."""
    body = encode_heartbeat(
        Heartbeat(
            name="edge-1",
            version="1",
            epoch="e",
            boot="b",
            seq=seq,
            uptime_s=1.0,
            depth=Depth(waiting=waiting),
        )
    )
    return body, signed(heartbeat_id("edge-1", "b", seq), body)


async def test_the_backends_alert_is_told_by_the_process_that_raised_it(receiver: Receiver, dsn: str) -> None:
    async with (
        announcing(quick(receiver), key="k", who="backend") as tell,
        backend(dsn, on_alert=tell) as one,
        backend(dsn, on_alert=tell) as two,
    ):
        for seq, waiting in ((1, 20_000), (2, 0)):
            body, headers = beat(seq, waiting)
            await one.client.post("/api/collectors/edge-1/heartbeat", content=body, headers=headers)
            for b in (one, two, one):
                await b.service.desk.look_once()
            await told(receiver, seq)
    first, second = receiver.told
    assert "raised collector.backlog edge-1: waiting 20000" in first["message"]
    assert "resolved collector.backlog edge-1" in second["message"]


async def test_a_service_that_fails_is_tried_again_until_it_is_told(receiver: Receiver) -> None:
    receiver.statuses = [500, 429, 503]
    with structlog.testing.capture_logs() as logs:
        async with announcing(quick(receiver), key="k", who="c") as tell:
            tell("raised", "disk.low", "", "1 MiB")
            await eventually(lambda: receiver.refused == 3 and len(receiver.told) == 1, "it is told")
    unsent = [(line["reason"], line["failures"]) for line in logs if line["event"] == "alert.unsent"]
    assert unsent == [("it answered 500", 1), ("it answered 429", 2), ("it answered 503", 3)]
    assert "a-secret-path" not in str(logs)


async def test_a_machine_without_a_thread_to_spare_delays_alerts_and_ends_none(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refusals = threading.Thread.start, 2

    def start_later(thread: threading.Thread) -> None:
        nonlocal refusals
        if thread.name == "alert" and refusals:
            refusals -= 1
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_later)
    with structlog.testing.capture_logs() as logs:
        async with announcing(quick(receiver), key="k", who="c") as tell:
            tell("raised", "disk.low", "", "1 MiB")
            await eventually(lambda: "disk.low" in receiver.text, "it is told when there is a thread")
            tell("resolved", "disk.low", "", "")
            await eventually(lambda: "resolved disk.low" in receiver.text, "and so is what comes later")
    unsent = [(line["reason"], line["failures"]) for line in logs if line["event"] == "alert.unsent"]
    assert unsent == [("RuntimeError", 1), ("RuntimeError", 2)]


async def test_what_came_while_a_service_was_away_is_one_summary(receiver: Receiver) -> None:
    receiver.statuses = [503] * 5
    async with announcing(quick(receiver), key="k", who="c") as tell:
        tell("raised", "outbox.full", "", "")
        await eventually(lambda: receiver.refused >= 1, "it failed")
        for number in range(3 * PENDING_MAX):
            tell("raised", "instance.unknown", f"evo/{number}", "")
        tell("raised", "instance.unknown", "evo/0", "")
        await told(receiver, 2)  # the first, then a summary
    assert receiver.told[1]["title"] == f"zaplake c: {3 * PENDING_MAX} alerts"


async def test_a_service_that_hangs_delays_neither_the_others_nor_the_door_nor_the_stop(
    receiver: Receiver, tmp_path: Path
) -> None:
    loop = asyncio.get_running_loop()
    async with Receiver(hangs=True) as hanging:
        settings = quick(hanging, receiver, timeout_s=0.3)
        async with announcing(settings, key="k", who="c") as tell:
            async with running(collector_config(tmp_path, "http://127.0.0.1:9"), on_alert=tell) as collector:
                await collector.post("/gateways/nobody/x", b"{}")
                started_s = loop.time()
                await eventually(lambda: "door.no_gateway" in receiver.text, "the other one is told")
                assert loop.time() - started_s < 2
                for _ in range(20):
                    assert (await collector.client.get("/healthz")).elapsed.total_seconds() < 1
                assert not collector.task.done()
            stopped_s = loop.time()
        assert loop.time() - stopped_s < 2


async def test_what_nobody_was_told_of_is_told_at_the_stop(receiver: Receiver) -> None:
    settings = AlertSettings(urls=(Secret(receiver.url),), gather_s=60)
    async with announcing(settings, key="k", who="c") as tell:
        tell("raised", "store.failing", "", "disk full")
    assert "store.failing: disk full" in receiver.text


async def test_a_url_that_nobody_understands_is_refused_without_being_shown() -> None:
    settings = AlertSettings(urls=(Secret("json://127.0.0.1"), Secret("nonsense://my-token")))
    with pytest.raises(UsageTrouble, match=r"x\.urls\[1\]") as refused:
        async with announcing(settings, key="x", who="c"):
            pass
    assert "my-token" not in f"{refused.value} {refused.value.next_step}"


async def test_alerts_test_says_per_url_whether_it_worked(receiver: Receiver, tmp_path: Path) -> None:
    async with Receiver(statuses=[403] * 9) as refusing:
        both = {"ZAPLAKE_COLLECTOR_ALERTS_URLS": receiver.url, "ZAPLAKE_INGEST_ALERTS_URLS": refusing.url}
        for env, code in ((both, 1), ({"ZAPLAKE_COLLECTOR_ALERTS_URLS": receiver.url}, 0), ({}, 2)):
            done = await asyncio.to_thread(
                processes.zaplake, "alerts", "test", "--data-dir", tmp_path, env=env, cwd=tmp_path
            )
            assert done.returncode == code, done.stderr
            assert "a-secret-path" not in done.stdout + done.stderr
            if code == 1:
                assert "ok    collector.alerts.urls[0] (JSON)\n" in done.stdout
                assert "WRONG ingest.alerts.urls[0] (JSON): it answered 403\n" in done.stdout
    assert [message["title"] for message in receiver.told] == ["zaplake: test", "zaplake: test"]


async def test_the_real_collector_tells_its_alerts(receiver: Receiver, tmp_path: Path) -> None:
    env = {
        "ZAPLAKE_SIGNING_SECRETS": "a-signing-secret-of-the-tests",
        "ZAPLAKE_COLLECTOR_ALERTS_URLS": receiver.url,
        "ZAPLAKE_COLLECTOR_ALERTS_GATHER_S": "0.1",
        "ZAPLAKE_COLLECTOR_BACKEND_URL": "http://127.0.0.1:9",
    }
    arguments = ("collect", "--json", "--collector-port", 0, "--data-dir", tmp_path)
    with contextlib.ExitStack() as stack:
        collector = await asyncio.to_thread(
            stack.enter_context, processes.running(*arguments, log=tmp_path / "log", env=env)
        )
        url = (await asyncio.to_thread(collector.wait_for, "ready"))["collector"]
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.post(f"{url}/gateways/nobody/x", content=b"{}")).status_code == 404
        await eventually(lambda: "raised door.no_gateway" in receiver.text, "it is told")
        assert await asyncio.to_thread(collector.stop) == 0
        log = (tmp_path / "log").read_text()
        assert "alert.sent" in log
        assert "a-secret-path" not in log
