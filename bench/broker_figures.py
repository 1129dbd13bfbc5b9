"""Figure of the RabbitMQ door: messages a second from a queue into the outbox, beside the webhook door."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path

import aio_pika

from bench import requests
from bench.collector_figures import (
    CLIENTS,
    EVENTS_PREPARED_PER_S,
    NO_BACKEND,
    SHIP_S_MAX,
    until_waiting,
)
from bench.harness import Line, Options, expect_rows, in_turn, say
from bench.loadclient import run_client
from bench.serve import running
from collector.amqp_config import DLQ, RETURNED, queue_arguments
from outbox.sqlite_file import FILE_NAME

MESSAGES = 20_000


def broker(_server_dsn: str, options: Options) -> list[Line]:
    """A queue of 20,000 messages is read; AMQP_URL names the broker, without it nothing is measured."""
    url = os.environ.get("AMQP_URL")
    if not url:
        say("  # broker: not measured, AMQP_URL names none")
        return []

    def taken_per_s(run: str) -> float:
        queue = f"zaplake-bench-{uuid.uuid4().hex[:8]}"
        asyncio.run(_fill(url, queue, run))
        try:
            with tempfile.TemporaryDirectory(prefix="zlbench-") as folder:
                flags = (f"--folder={folder}", f"--backend-url={NO_BACKEND}", f"--amqp-queue={queue}")
                with running("collector", *flags) as collector:
                    started = time.perf_counter()
                    until_waiting(collector, MESSAGES, SHIP_S_MAX)
                    elapsed = time.perf_counter() - started
                expect_rows("broker", acknowledged=MESSAGES, found=_records(Path(folder)))
        finally:
            asyncio.run(_delete(url, queue))
        return MESSAGES / elapsed

    ours, webhook = in_turn(
        {"broker: ours": taken_per_s, "broker: webhook door": lambda run: _webhooks_per_s(run, options)},
        options.runs,
    ).values()
    return [Line(name="broker_door_vs_webhook_door", ours=ours, reference=webhook, goal=1.0)]


def _webhooks_per_s(run: str, options: Options) -> float:
    with tempfile.TemporaryDirectory(prefix="zlbench-") as folder:
        with running("collector", f"--folder={folder}", f"--backend-url={NO_BACKEND}") as collector:
            load = run_client(
                port=collector.ready.port,
                shape="webhook",
                clients=CLIENTS,
                seconds=options.seconds,
                count=round(EVENTS_PREPARED_PER_S * options.seconds),
                run=run,
            )
        expect_rows("broker: webhook door", acknowledged=load.ok, found=_records(Path(folder)))
    return load.per_s


def _records(folder: Path) -> int:
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        return int(connection.execute("SELECT count(*) FROM outbox").fetchone()[0])


async def _fill(url: str, queue: str, run: str) -> None:
    """Our queue with that many messages, as a gateway would have left them."""
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        await channel.declare_queue(queue, durable=True, arguments=dict(queue_arguments(queue + RETURNED)))
        for first in range(0, MESSAGES, 500):
            await asyncio.gather(
                *(
                    channel.default_exchange.publish(
                        aio_pika.Message(requests.webhook_body(run, number)), routing_key=queue
                    )
                    for number in range(first, first + 500)
                )
            )


async def _delete(url: str, queue: str) -> None:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        for name in (queue, queue + RETURNED, queue + DLQ):
            await channel.queue_delete(name)
