"""A collector that is killed while it reads RabbitMQ loses no message and ships none twice under two ids."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
from pathlib import Path

import httpx
import pytest

from tests.collector.running import eventually, message
from tests.collector.scripted import ScriptedBackend
from tests.collector.test_kill import process
from tests.support.rabbit import Rabbit

MESSAGES = 200
LIFE_S_MAX = 0.5
"""How long a collector lives after its doors accept: it connects and takes a few batches."""


async def survive(tmp_path: Path, rabbit: Rabbit, kills: int, per_kill: int) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    broker = json.dumps(dataclasses.asdict(rabbit.config(prefetch=20)))
    numbers = iter(range(kills * per_kill))
    async with ScriptedBackend() as backend:
        for turn in range(kills):
            async with process(tmp_path, backend.url, broker) as (child, _port):
                if turn == 0:
                    await rabbit.consumed_by(rabbit.queue, 1)
                await rabbit.publish(*(message(next(numbers), rabbit.instance) for _ in range(per_kill)))
                await asyncio.sleep(chance.random() * LIFE_S_MAX)
                child.kill()
        async with process(tmp_path, backend.url, broker) as (child, port):
            await eventually(
                lambda: len(backend.stored) == kills * per_kill, f"every message is shipped (seed {seed})"
            )
            # What the lives before had shipped and not acknowledged comes again.
            await eventually(lambda: is_settled(rabbit, port), f"every copy is acknowledged (seed {seed})")
            child.terminate()
            assert await child.wait() == 0
        told = {json.loads(body)["payload"]["key"]["id"] for body in backend.stored.values()}
        assert len(told) == len(backend.stored), f"one id each (seed {seed})"
    assert await rabbit.waiting(rabbit.queue) == 0


async def is_settled(rabbit: Rabbit, port: int) -> bool:
    """Nothing waits at the broker, and what came from there is acknowledged."""
    if await rabbit.waiting(rabbit.queue) != 0:
        return False
    async with httpx.AsyncClient() as http:
        (broker,) = (await http.get(f"http://127.0.0.1:{port}/status")).json()["rabbitmq"]
    return bool(broker["received"] == broker["acked"])


async def test_kill_9_between_delivery_and_acknowledgement_loses_nothing(
    tmp_path: Path, rabbit: Rabbit
) -> None:
    await survive(tmp_path, rabbit, kills=1, per_kill=MESSAGES)


@pytest.mark.chaos
@pytest.mark.timeout(600)
async def test_many_kills_lose_nothing(tmp_path: Path, rabbit: Rabbit) -> None:
    await survive(tmp_path, rabbit, kills=20, per_kill=100)
