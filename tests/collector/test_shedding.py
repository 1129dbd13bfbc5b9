"""Shedding: off unless told, the least valuable first, and nothing is left out without a row that says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config import CollectorConfig
from collector.shedding import kinds_shed
from contracts.configured import SHEDDABLE, CapturePolicy, ConfigError
from tests.collector.running import Running, collector_config, eventually, limits, running
from tests.collector.scripted import ScriptedBackend
from tests.collector.test_pressure import Outage, post

ORDER = ("message.receipt", "message.status")


def status_of(number: int) -> bytes:
    """A delivery of another message each time."""
    data = {
        "keyId": f"3EB0{number:012X}",
        "remoteJid": "5511900000001@s.whatsapp.net",
        "fromMe": True,
        "status": "DELIVERY_ACK",
    }
    stamp = "2026-01-01T10:00:00.000Z"
    return json.dumps(
        {"event": "messages.update", "instance": "loja-sp", "data": data, "date_time": stamp}
    ).encode()


def shedding_config(folder: Path, backend: ScriptedBackend, *, rows_max: int) -> CollectorConfig:
    policy = CapturePolicy(shed=("message.status",))
    return collector_config(
        folder, backend.url, capture=policy, limits=limits(outbox_rows_max=rows_max, housekeeping_s=0.1)
    )


async def post_status(collector: Running, number: int) -> int:
    return (await collector.post("/gateways/evolution/loja-sp", status_of(number))).status_code


def gaps(backend: ScriptedBackend) -> list[dict[str, Any]]:
    events = [json.loads(body) for body in backend.stored.values()]
    return [event for event in events if event["kind"] == "gap"]


@pytest.mark.parametrize(
    ("share", "kinds"), [(0.0, 0), (0.79, 0), (0.8, 1), (0.89, 1), (0.91, 2), (1.0, 2), (3.0, 2)]
)
def test_the_least_valuable_goes_first(share: float, kinds: int) -> None:
    assert kinds_shed(ORDER, share) == set(ORDER[:kinds])


@given(st.lists(st.sampled_from(SHEDDABLE), unique=True), st.floats(0, 10))
def test_what_was_not_named_is_never_shed_and_a_full_store_sheds_all_that_was(
    order: list[str], share: float
) -> None:
    assert kinds_shed(order, share) <= set(order)
    assert kinds_shed(order, 1.0) == set(order)


def test_a_message_cannot_be_named() -> None:
    with pytest.raises(ConfigError, match=r"capture\.shed"):
        CapturePolicy(shed=("message",))


async def test_what_is_left_out_is_counted_in_a_row_of_the_lake(tmp_path: Path) -> None:
    outage = Outage()
    async with ScriptedBackend(script=outage) as backend:
        config = shedding_config(tmp_path, backend, rows_max=10)
        async with running(config) as collector:
            assert [await post(collector, n) for n in range(9)] == [200] * 9

            async def shedding() -> bool:
                return "outbox.filling" in await collector.alerts()

            await eventually(shedding, "outbox.filling at 90 %")
            assert [await post_status(collector, n) for n in range(100, 107)] == [200] * 7
            assert (await collector.totals())["shed"] == 7
            assert (await collector.outbox())["waiting"] == 9, "nothing of it waits"
            assert await post(collector, 9) == 200, "a message still finds the last place"
        outage.over = True
        async with running(config) as collector:
            await eventually(lambda: len(gaps(backend)) == 1, "the gap outlives its collector")

            async def has_room() -> bool:
                is_filling = "outbox.filling" in await collector.alerts()
                return not is_filling and (await collector.outbox())["waiting"] == 0

            await eventually(has_room, "everything is shipped, and the shedder has heard of it")
            assert await post_status(collector, 200) == 200
            await eventually(lambda: len(backend.stored) == 12, "with room nothing is shed")
        (gap,) = gaps(backend)
        assert (gap["gateway"], gap["instance"], gap["occurred_from"]) == (
            "evolution",
            "loja-sp",
            "collector",
        )
        told = gap["payload"]
        assert (told["kind"], told["count"]) == ("message.status", 7)
        assert told["from"] <= told["to"]


async def test_nothing_is_shed_unless_it_was_named(tmp_path: Path) -> None:
    async with ScriptedBackend(script=Outage()) as backend:
        config = collector_config(tmp_path, backend.url, limits=limits(outbox_rows_max=2))
        async with running(config) as collector:
            assert [await post(collector, n) for n in range(2)] == [200] * 2
            assert await post_status(collector, 100) == 503
            assert "shed" not in await collector.totals()


async def test_a_gap_that_ends_is_told_while_the_collector_lives(tmp_path: Path) -> None:
    outage = Outage()
    async with ScriptedBackend(script=outage) as backend:
        config = shedding_config(tmp_path, backend, rows_max=5)
        async with running(config) as collector:
            assert [await post(collector, n) for n in range(5)] == [200] * 5

            async def shed() -> bool:
                await post_status(collector, 100)
                return "shed" in await collector.totals()

            await eventually(shed, "shedding")
            outage.over = True
            await eventually(lambda: len(gaps(backend)) == 1, "the gap's row")
