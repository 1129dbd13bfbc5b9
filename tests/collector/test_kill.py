"""What was acknowledged survives SIGKILL at any moment, and SIGTERM ends the process cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx

from tests.collector.running import DEADLINE_S, eventually, message
from tests.collector.scripted import ScriptedBackend
from tests.support.prepared import Prepared

CLIENTS = 64
KILLS = 2


@contextlib.asynccontextmanager
async def process(folder: Path, url: str, *brokers: str) -> AsyncIterator[tuple[Prepared, int]]:
    """A collector's process and its port; killed at the end unless it ended."""
    child = await Prepared.start("tests.collector.process", [str(folder), url, *brokers])
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not (line := await child.stdout.readline()).strip().isdigit():
                assert line, "the collector ended before it was ready"
        yield child, int(line)
    finally:
        child.kill()
        await child.wait()
        child.close()


async def test_kill_9_in_the_middle_loses_nothing_acknowledged(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    acknowledged: set[int] = set()
    numbers = iter(range(10**9))

    async def client(http: httpx.AsyncClient) -> None:
        with contextlib.suppress(httpx.TransportError):
            while True:
                number = next(numbers)
                answer = await http.post("/gateways/evolution/loja-sp", content=message(number))
                if answer.status_code == 200:
                    acknowledged.add(number)

    def reached(count: int) -> bool:
        return len(acknowledged) >= count

    async with ScriptedBackend() as backend:
        for _ in range(KILLS):
            async with process(tmp_path, backend.url) as (child, port):
                limits = httpx.Limits(max_connections=CLIENTS)
                url = f"http://127.0.0.1:{port}"
                async with httpx.AsyncClient(base_url=url, timeout=DEADLINE_S, limits=limits) as http:
                    clients = [asyncio.create_task(client(http)) for _ in range(CLIENTS)]
                    enough = len(acknowledged) + 1
                    await eventually(partial(reached, enough), "some were acknowledged")
                    await asyncio.sleep(chance.random() * 0.5)
                    child.kill()
                    await asyncio.gather(*clients)
        assert len(acknowledged) > KILLS, f"seed {seed}"
        async with process(tmp_path, backend.url) as (child, _port):
            wanted = {f"pedido {number}".encode() for number in acknowledged}

            def arrived() -> bool:
                text = b"\n".join(backend.stored.values())
                return all(b'"' + word + b'"' in text for word in wanted)

            await eventually(arrived, f"every acknowledged event shipped (seed {seed})")
            child.terminate()
            assert await asyncio.wait_for(child.wait(), DEADLINE_S) == 0
