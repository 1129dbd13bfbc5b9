"""The loss meter: which channels brought an event, from the doors to the lake's view, each counted once."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from collector.config import Limits
from collector.labels import label_of, parts_of
from collector.meter import LossMeter
from contracts.configured import CaptureFilter, CapturePolicy
from contracts.envelope import Channel
from contracts.heartbeat import Coverage
from contracts.translation import Arrival
from outbox.clock import ManualClock
from outbox.metering import MeteredStore
from outbox.sqlite import open_sqlite
from tests.collector.running import collector_config, eventually, message, running
from tests.collector.scripted import Reply, Request, ScriptedBackend
from tests.collector.test_capture import Bench, bench
from tests.ingest import backend as ingest
from tests.support.metrics import value

GRACE_S = 1800.0


def metered(made: Bench, store: MeteredStore) -> LossMeter:
    return LossMeter(store, Limits(), metrics=made.capture.metrics, now=made.clock.now)


async def bring(made: Bench, channel: Channel, *numbers: int) -> None:
    gateway = made.capture.gateway("evolution")
    assert gateway is not None
    arrivals = [
        Arrival(
            raw=message(number),
            gateway=gateway,
            path_instance=None,
            channel=channel,
            captured_at=made.clock.now(),
        )
        for number in numbers
    ]
    await made.capture.take_each(arrivals)


def short(told: tuple[Coverage, ...]) -> dict[tuple[str, ...], int]:
    assert {(cell.gateway, cell.instance) for cell in told} <= {("evolution", "loja-sp")}
    return {cell.channels: cell.count for cell in told if cell.kind == "message"}


async def test_the_same_event_by_both_doors_is_one_that_both_brought(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await open_sqlite(tmp_path / "collector", clock)
    made = await bench(tmp_path, store, clock)
    meter = metered(made, store)
    await bring(made, "webhook", 1, 2, 3)
    clock.advance(0.25)
    await bring(made, "rabbitmq", 1, 2, 4, 4)
    clock.advance(GRACE_S - 0.2)
    await bring(made, "rabbitmq", 3)  # just before the grace is over
    await meter.sweep()
    both = ("rabbitmq", "webhook")
    told = await meter.to_tell()
    assert short(told) == {both: 3}
    clock.advance(60)
    await meter.sweep()
    told = await meter.to_tell()
    assert short(told) == {both: 3, ("rabbitmq",): 1}
    (cell,) = [cell for cell in told if cell.channels == both and cell.kind == "message"]
    assert (cell.delay_ms_max, sum(cell.delays), cell.hour[-1]) == (1799_800 + 250, 3, "Z")
    await store.close()


async def test_what_the_backend_did_not_keep_is_told_again(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await open_sqlite(tmp_path / "collector", clock)
    made = await bench(tmp_path, store, clock)
    await bring(made, "webhook", 1)
    clock.advance(GRACE_S + 1)
    await metered(made, store).sweep()
    lost = await metered(made, store).to_tell()
    meter = metered(made, store)  # as after a restart
    await meter.were_kept()  # of what it has told: nothing
    assert await meter.to_tell() == lost != ()
    await meter.were_kept()
    assert await meter.to_tell() == ()
    await store.close()


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_backend_that_keeps_no_counts_is_told_them_until_it_does(tmp_path: Path, keeps: bool) -> None:
    told: list[list[object]] = []

    def script(request: Request) -> Reply | None:
        if not request.path.startswith("/api/collectors/"):
            return None
        told.append(json.loads(request.body)["coverage"])
        return Reply(200, json.dumps({"scopes": [], "keeps_coverage": keeps}).encode())

    async with ScriptedBackend(script=script) as there:
        limits = Limits(channel_grace_s=0.001, housekeeping_s=0.02)
        config = collector_config(tmp_path, there.url, heartbeat_s=0.02, limits=limits)
        async with running(config) as collector:
            await collector.post("/gateways/evolution/loja-sp", message(1))
            await eventually(lambda: any(told), "the count is told")
            seen = len(told)
            await eventually(lambda: len(told) >= seen + 3, "three heartbeats more")
            assert [bool(cells) for cells in told[-2:]] == [not keeps] * 2
            page = (await collector.client.get("/metrics")).text
            names = {"gateway": "evolution", "instance": "loja-sp", "channels": "webhook"}
            assert value(page, "zaplake_collector_channel_records_total", **names) >= 1


async def test_counts_reach_the_view_of_the_lake(dsn: str, tmp_path: Path) -> None:
    async with ingest.backend(dsn) as there:
        limits = Limits(channel_grace_s=0.001, housekeeping_s=0.02)
        config = collector_config(
            tmp_path,
            f"http://127.0.0.1:{there.port}",
            secrets=(ingest.SECRET,),
            heartbeat_s=0.05,
            limits=limits,
        )
        for numbers in (range(5), range(3, 8)):  # a restart in between, and copies of what was counted
            async with running(config) as collector:
                posts = [collector.post("/gateways/evolution/loja-sp", message(n)) for n in numbers]
                await asyncio.gather(*posts)

                async def told(count: int = max(numbers) + 1) -> bool:
                    rows = await there.fetch(
                        "SELECT only_webhook FROM lake.channel_coverage WHERE kind = 'message'"
                    )
                    return bool(sum(row["only_webhook"] for row in rows) == count)

                await eventually(told, "each message counts once in the view")


async def test_each_kind_is_heard_also_what_the_policy_leaves_out(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await open_sqlite(tmp_path / "collector", clock)
    policy = CapturePolicy(deny=CaptureFilter(kinds=frozenset({"message"})))
    made = await bench(tmp_path, store, clock, capture=policy)
    await bring(made, "rabbitmq", 1)
    first = clock.now().replace(microsecond=0)
    clock.advance(60)
    gateway = made.capture.gateway("evolution")
    assert gateway is not None
    file = Arrival(
        raw=message(2), gateway=gateway, path_instance=None, channel="jsonl", captured_at=clock.now()
    )
    await made.capture.take_all([file])
    seen = made.capture.instances.seen["evolution", "loja-sp"]
    assert seen.kinds["message"] <= clock.now() - timedelta(seconds=60)
    await made.capture.instances.save()
    again = await bench(tmp_path, store, clock)
    assert again.capture.instances.seen["evolution", "loja-sp"].kinds["message"] == first
    await store.close()


@pytest.mark.parametrize("instance", ["loja-sp", "", "a/b c", "5511 x/y"])
def test_a_label_tells_instance_and_kind(instance: str) -> None:
    assert parts_of(label_of(("evolution", instance), "message.status")) == (
        ("evolution", instance),
        "message.status",
    )
