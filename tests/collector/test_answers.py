"""What the collector does on each answer of the backend (contract §3), from webhook to dead letter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path

import structlog

from contracts.envelope import PROBLEM_TOO_LARGE
from tests.collector.running import collector_config, eventually, message, running
from tests.collector.scripted import Reply, Request, ScriptedBackend

TOO_LARGE = json.dumps({"type": PROBLEM_TOO_LARGE, "title": "too large", "status": 413}).encode()
PORTAL = b"<html>please log in</html>"

DEAD = {"400": Reply(400), "422": Reply(422), "our own 413": Reply(413, TOO_LARGE)}
HALTING = {
    "401": Reply(401),
    "403": Reply(403),
    "404": Reply(404),
    "409": Reply(409),
    "413 of a proxy": Reply(413, PORTAL),
    "302": Reply(302, headers=((b"location", b"http://127.0.0.1:9/"),)),
    "200 of a portal": Reply(200, PORTAL),
    "201 for another": Reply(201, b'{"event_id":"0b7a9c1e-0000-5000-8000-000000000000","status":"stored"}'),
}
PASSING = {
    "408": Reply(408),
    "425": Reply(425),
    "429": Reply(429, headers=((b"retry-after", b"1"),)),
    "500": Reply(500),
    "503": Reply(503),
    "599": Reply(599),
}


def events_only(reply: Reply) -> Callable[[Request], Reply | None]:
    """The reply to events, honesty to heartbeats."""
    return lambda request: None if request.path.startswith("/api/collectors/") else reply


async def dead_letter(folder: Path, reply: Reply) -> None:
    folder.mkdir()
    async with (
        ScriptedBackend(script=events_only(reply)) as backend,
        running(collector_config(folder, backend.url)) as collector,
    ):
        assert (await collector.post("/gateways/evolution/x", message(1))).status_code == 200

        async def is_dead() -> bool:
            return (await collector.outbox())["dead"] == 1

        await eventually(is_dead, f"{reply.status} makes a dead letter")
        assert "outbox.dead" in await collector.alerts()
        backend.script = None
        assert (await collector.post("/gateways/evolution/x", message(2))).status_code == 200
        await eventually(lambda: len(backend.stored) == 1, "the queue goes on")
        assert (await collector.outbox())["dead"] == 1


async def halt(folder: Path, reply: Reply) -> None:
    folder.mkdir()
    async with (
        ScriptedBackend(script=events_only(reply)) as backend,
        running(collector_config(folder, backend.url)) as collector,
    ):
        for number in range(3):
            await collector.post("/gateways/evolution/x", message(number))

        async def is_halted() -> bool:
            return "shipper.halted" in await collector.alerts()

        await eventually(is_halted, f"{reply.status} halts")
        outbox = await collector.outbox()
        assert (outbox["waiting"], outbox["dead"]) == (3, 0)
        backend.script = None
        await eventually(lambda: len(backend.stored) == 3, "everything ships once the other side is right")

        async def is_over() -> bool:
            return "shipper.halted" not in await collector.alerts()

        await eventually(is_over, "resolved")
        recent = (await collector.status())["alerts"]["recent"]
        told = [line["what"] for line in recent if line["alert"] == "shipper.halted"]
        assert told == ["raised", "resolved"]


async def come_again(folder: Path, reply: Reply) -> None:
    folder.mkdir()
    async with (
        ScriptedBackend(script=events_only(reply)) as backend,
        running(collector_config(folder, backend.url)) as collector,
    ):
        await collector.post("/gateways/evolution/x", message(1))
        await eventually(lambda: len(backend.requests) >= 2, "tried")
        outbox = await collector.outbox()
        assert (outbox["waiting"], outbox["dead"]) == (1, 0)
        assert not await collector.alerts()
        backend.script = None
        await eventually(lambda: len(backend.stored) == 1, f"delivered after {reply.status}")


async def all_of(
    case: Callable[[Path, Reply], Coroutine[None, None, None]], replies: dict[str, Reply], folder: Path
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number, reply in enumerate(replies.values()):
            tasks.create_task(case(folder / str(number), reply))


async def test_only_what_blames_the_record_makes_a_dead_letter(tmp_path: Path) -> None:
    await all_of(dead_letter, DEAD, tmp_path)


async def test_what_says_that_we_are_wrong_halts_with_one_alert_and_heals(tmp_path: Path) -> None:
    await all_of(halt, HALTING, tmp_path)


async def test_what_passes_is_tried_again_without_an_alert(tmp_path: Path) -> None:
    await all_of(come_again, PASSING, tmp_path)


async def test_a_backend_that_is_not_there_loses_nothing_and_heals_by_itself(tmp_path: Path) -> None:
    async with ScriptedBackend() as backend:
        port = backend.url.rpartition(":")[2]
    config = collector_config(tmp_path, f"http://127.0.0.1:{port}")
    async with running(config) as collector:
        for number in range(5):
            assert (await collector.post("/gateways/evolution/x", message(number))).status_code == 200
        assert (await collector.outbox())["waiting"] == 5
        async with ScriptedBackend(port=int(port)) as back:
            await eventually(lambda: len(back.stored) == 5, "shipped when it is back")


async def test_a_second_body_under_one_id_ships_too_and_a_copy_never_again(tmp_path: Path) -> None:
    async with ScriptedBackend() as backend, running(collector_config(tmp_path, backend.url)) as collector:
        await collector.post("/gateways/evolution/loja-sp", message(1))
        await eventually(lambda: len(backend.stored) == 1, "first")
        other = message(1).replace(b"pedido 1", b"pedido 1 mudado")
        await collector.post("/gateways/evolution/loja-sp", other)
        await eventually(lambda: len(backend.requests) == 3, "the other content ships (and one heartbeat)")
        assert (await collector.totals()) == {"stored": 1, "conflict": 1}
        for body in (message(1), other):
            await collector.post("/gateways/evolution/loja-sp", body)
        assert (await collector.totals()) == {"stored": 1, "conflict": 1, "duplicate": 2}

        async def nothing_waits() -> bool:
            return (await collector.outbox())["waiting"] == 0

        await eventually(nothing_waits, "settled")
        assert len(backend.requests) == 3, "a copy dies at the origin"


async def test_a_refused_heartbeat_is_an_alert_and_an_outage_is_none(tmp_path: Path) -> None:
    def answering(status: int) -> Callable[[Request], Reply | None]:
        return lambda request: Reply(status, b"{}") if request.path.startswith("/api/collectors/") else None

    async with ScriptedBackend(script=answering(503)) as backend:
        config = collector_config(tmp_path, backend.url, heartbeat_s=0.05)
        async with running(config) as collector:
            await eventually(lambda: len(backend.requests) > 3, "it beats")
            assert await collector.alerts() == set()
            backend.script = answering(404)

            async def refused() -> bool:
                return await collector.alerts() == {"heartbeat.refused"}

            async def fine() -> bool:
                return await collector.alerts() == set()

            await eventually(refused, "said")
            backend.script = None
            await eventually(fine, "resolved")


async def test_heartbeats_say_what_the_contract_asks_for_and_bring_the_table(tmp_path: Path) -> None:
    scopes = [{"gateway": "evolution", "instance": "nova", "scope": "loja"}]
    with structlog.testing.capture_logs() as logs:
        async with ScriptedBackend(scopes=scopes) as backend:
            config = collector_config(tmp_path, backend.url, heartbeat_s=0.1)
            async with running(config) as collector:
                await collector.post("/gateways/evolution/x", message(1))
                await collector.post(
                    "/gateways/evolution/loja-sp",
                    b'{"event":"connection.update","instance":"loja-sp","data":{"state":"open"},"date_time":"d"}',
                )
                await eventually(lambda: any(beat["instances"] for beat in backend.heartbeats), "told")
                await collector.post("/gateways/evolution/x", message(2, instance="nova"))
                await eventually(
                    lambda: any(b'"scope":"loja"' in body for body in backend.stored.values()), "mapped"
                )
                beat = backend.heartbeats[-1]
    assert beat["name"] == "collector"
    assert {"version", "epoch", "boot", "uptime_s", "depth", "disk_free_bytes"} <= beat.keys()
    assert [other["seq"] for other in backend.heartbeats] == list(range(1, len(backend.heartbeats) + 1))
    instances = {row["instance"]: row for row in beat["instances"]}
    assert instances["loja-sp"]["state"] == "open"
    counters = {(row["instance"], row["channel"]): row["count"] for row in beat["counters"]}
    assert counters[("loja-sp", "webhook")] == 2
    told = json.dumps(logs, default=str)
    assert "heartbeat" in told
    assert "5511900000001" not in told
    assert "pedido" not in told
