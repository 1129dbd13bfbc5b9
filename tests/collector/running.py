"""Starts the real collector in the test's own loop, on a free port and a folder of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from collector.alerts import OnAlert, nobody
from collector.config import CollectorConfig, Limits
from collector.daemon import Daemon, DaemonState
from collector.verbs import Document
from contracts.configured import GatewayConfig
from outbox.metering import MeteredStore
from tests.collector.scripted import SECRET

FIXTURES = Path(__file__).parent.parent / "golden" / "fixtures"
DEADLINE_S = 15.0


@dataclass
class Running:
    """A living collector."""

    daemon: Daemon
    config: CollectorConfig
    client: httpx.AsyncClient
    states: list[DaemonState]
    stop: asyncio.Event
    task: asyncio.Task[None]

    async def post(self, path: str, body: bytes, **headers: str) -> httpx.Response:
        return await self.client.post(path, content=body, headers=headers)

    async def status(self) -> Document:
        return await self.daemon.status()

    async def totals(self) -> dict[str, int]:
        totals: dict[str, int] = (await self.status())["totals"]
        return totals

    async def outbox(self) -> dict[str, int]:
        outbox: dict[str, int] = (await self.status())["outbox"]
        return outbox

    async def alerts(self) -> set[str]:
        """Names of the alerts that last now."""
        return {alert["alert"] for alert in (await self.status())["alerts"]["active"]}


def collector_config(folder: Path, url: str, **changes: Any) -> CollectorConfig:
    values: dict[str, Any] = {
        "backend_url": url,
        "secrets": (SECRET,),
        "data_folder": folder / "collector",
        "port": 0,
        "heartbeat_s": 30.0,
    }
    return CollectorConfig(**{**values, **changes})


@contextlib.asynccontextmanager
async def running(
    config: CollectorConfig,
    open_store: Callable[[], Awaitable[MeteredStore]] | None = None,
    on_alert: OnAlert = nobody,
    wall_s: Callable[[], float] = time.time,
) -> AsyncIterator[Running]:
    """The collector, ready; asked to stop and awaited at the end, unless it ended before."""
    daemon = Daemon(config, open_store=open_store, on_alert=on_alert, wall_s=wall_s)
    stop, ready = asyncio.Event(), asyncio.Event()
    states: list[DaemonState] = []

    def on_state(state: DaemonState) -> None:
        states.append(state)
        ready.set()

    task = asyncio.create_task(daemon.run(stop, on_state))
    opened = asyncio.create_task(ready.wait())
    await asyncio.wait({task, opened}, return_when=asyncio.FIRST_COMPLETED)
    if not states:
        opened.cancel()
        await task
    url = f"http://127.0.0.1:{states[0].port}"
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=url, timeout=DEADLINE_S, limits=limits) as client:
        try:
            yield Running(daemon, config, client, states, stop, task)
        finally:
            stop.set()
            await asyncio.wait_for(task, 40)


async def eventually(condition: Callable[[], Awaitable[bool] | bool], what: str) -> None:
    """Waits until the condition holds; fails with ``what`` at the deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_S
    while True:
        holds = condition()
        if not isinstance(holds, bool):
            holds = await holds
        if holds:
            return
        assert loop.time() < deadline, f"not in {DEADLINE_S} s: {what}"
        await asyncio.sleep(0.01)


def fixture(path: str) -> bytes:
    """A payload of the golden set, such as ``evolution/call-offer.json``."""
    return (FIXTURES / path).read_bytes()


def message(number: int, instance: str = "loja-sp", **more: object) -> bytes:
    """One invented Evolution message."""
    data = {
        "key": {"remoteJid": "5511900000001@s.whatsapp.net", "fromMe": False, "id": f"3EB0{number:012X}"},
        "pushName": "Ana",
        "message": {"conversation": f"pedido {number}"},
        "messageType": "conversation",
        "messageTimestamp": 1764950400 + number,
    }
    body = {
        "event": "messages.upsert",
        "instance": instance,
        "data": data,
        "date_time": "2026-01-01T10:00:00.000Z",
        "apikey": None,
        **more,
    }
    return json.dumps(body).encode()


def gateway(**values: Any) -> tuple[GatewayConfig, ...]:
    """One configured gateway named ``evo``."""
    return (GatewayConfig(**{"name": "evo", "family": "evolution", **values}),)


def limits(**values: Any) -> Limits:
    return Limits(**values)
