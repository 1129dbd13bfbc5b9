"""Edges: inflated bytes count, no query and no failing store is a 500, no wrong clock shuts it."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from outbox.memory import MemoryStore
from outbox.store import StoreStats, StoreUnavailable
from tests.collector.running import collector_config, eventually, gateway, limits, message, running
from tests.collector.scripted import ScriptedBackend


async def test_inflated_bytes_count_as_bytes_in_flight(tmp_path: Path) -> None:
    bounds = limits(body_bytes_max=400_000, bodies_in_flight_bytes_max=500_000)
    packed = gzip.compress(message(1, padding="x" * 200_000))
    assert len(packed) < 2000
    async with (
        ScriptedBackend() as backend,
        running(collector_config(tmp_path, backend.url, limits=bounds)) as collector,
    ):

        async def status() -> int:
            answer = await collector.post("/gateways/evolution/x", packed, **{"Content-Encoding": "gzip"})
            return answer.status_code

        assert await status() == 200
        _reader, writer = await asyncio.open_connection("127.0.0.1", collector.client.base_url.port)
        writer.write(b"POST /gateways/evolution/x HTTP/1.1\r\nhost: x\r\ncontent-length: 390000\r\n\r\n")
        writer.write(b" " * 380_000)

        async def is_in() -> bool:
            return bool((await collector.status())["bodies_in_flight_bytes"] > 350_000)

        await eventually(is_in, "most of it is in memory")

        async def refused() -> bool:
            return await status() == 503

        async def taken() -> bool:
            return await status() == 200

        await eventually(refused, "no room for what it becomes while the other is in flight")
        writer.close()
        await eventually(taken, "room again")


async def test_a_handshake_with_many_fields_is_refused_as_any_other(tmp_path: Path) -> None:
    own = gateway(name="meta", family="cloudapi", verify_token="verify-token-of-the-tests")
    async with running(collector_config(tmp_path, "http://127.0.0.1:9", gateways=own)) as collector:
        query = "&".join(f"hub.x{number}=1" for number in range(50))
        assert (await collector.client.get(f"/gateways/meta?{query}")).status_code == 403
        (alert,) = (await collector.client.get("/status")).json()["alerts"]["active"]
        assert (alert["alert"], alert["detail"]) == ("door.handshake", "wrong verify token")


class Unreadable(MemoryStore):
    """A store whose disk is away for those who look."""

    async def stats(self) -> StoreStats:
        raise StoreUnavailable("for now")


async def test_the_status_of_a_store_that_is_away_is_503(tmp_path: Path) -> None:
    config = collector_config(tmp_path, "http://127.0.0.1:9")
    config.data_folder.mkdir()

    async def opened() -> Unreadable:
        return Unreadable()

    async with running(config, opened) as collector:
        assert (await collector.client.get("/status")).status_code == 503


async def test_a_clock_that_was_ahead_at_the_start_and_was_set_right_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    async with ScriptedBackend() as backend:
        monkeypatch.setattr(time, "time", lambda: real() + 86_400)
        async with running(collector_config(tmp_path, backend.url)) as collector:
            monkeypatch.undo()
            assert (await collector.post("/gateways/evolution/x", message(1))).status_code == 200
            await eventually(lambda: bool(backend.stored), "it ships")
    (body,) = backend.stored.values()
    captured_at = datetime.fromisoformat(json.loads(body)["captured_at"])
    assert abs((captured_at - datetime.now(UTC)).total_seconds()) < 60
