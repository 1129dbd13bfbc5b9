"""One story by two doors that both lose a part of it: every fact arrives, each once, under the same id."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from simulator.broker import Publisher
from simulator.gateway import Gateway, paced
from simulator.story import Webhook, carried, disturbed, webhooks
from tests.collector.running import collector_config, eventually, limits, running
from tests.collector.scripted import ScriptedBackend
from tests.support.rabbit import Rabbit

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
EVENTS = 150
NO_STORM = limits(storm_events_max=10_000)
"""Hours of the story pass in a second: what is no storm there would be one by the clock on the wall."""


def story(seed: int) -> list[Webhook]:
    return list(islice(webhooks(seed, instances=3, start_at=START), EVENTS))


async def test_two_lossy_doors_bring_what_one_perfect_door_brings(tmp_path: Path, rabbit: Rabbit) -> None:
    seed = random.randrange(2**32)
    async with ScriptedBackend() as one, ScriptedBackend() as two:
        async with running(collector_config(tmp_path / "one", one.url, limits=NO_STORM)) as collector:
            sender = Gateway(f"http://127.0.0.1:{collector.states[0].port}/gateways/evolution", seed=seed)
            await sender.run(paced(story(seed), 10_000))
            wanted = (await collector.totals())["stored"]
            await eventually(lambda: len(one.stored) == wanted, f"all is shipped (seed {seed})")
        amqp = rabbit.config(instances=(rabbit.instance,))
        config = collector_config(tmp_path / "two", two.url, amqp=(amqp,), limits=NO_STORM)
        async with running(config) as collector:
            lossy = disturbed(
                carried(story(seed), "webhook", seed=seed, drop_share=0.6),
                seed,
                repeat_share=0.2,
                delay_share=0.2,
            )
            sender = Gateway(
                f"http://127.0.0.1:{collector.states[0].port}/gateways/evolution",
                seed=seed,
            )
            publisher = Publisher(
                rabbit.url, instances=(), global_exchange=rabbit.exchange, prefix=rabbit.exchange
            )

            async def consumes() -> bool:
                return bool((await collector.status())["rabbitmq"][0]["consuming"])

            await eventually(consumes, "the broker's door consumes")
            _, published = await asyncio.gather(
                sender.run(paced(lossy, 10_000)),
                publisher.run(paced(carried(story(seed), "rabbitmq", seed=seed, drop_share=0.6), 10_000)),
            )
            assert published.dropped == 0
            await eventually(lambda: len(two.stored) >= wanted, f"all is shipped (seed {seed})")
    assert two.stored.keys() == one.stored.keys(), f"seed {seed}"
    channels = b"".join(two.stored.values())
    assert b'"channel":"rabbitmq"' in channels
    assert b'"channel":"webhook"' in channels
