"""A pool of connections that gives none any more: requests go on by a new client."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import structlog
import uvloop

from collector.backend import UNANSWERED_MAX, Backend, Reply
from tests.collector.running import collector_config, eventually, limits
from tests.collector.scripted import ScriptedBackend

REQUEST_S_MAX = 0.05
FREEZES = 60
TURNS_MAX = 12
"""Of the loop, within which a connection is made."""


async def is_answered(backend: Backend) -> bool:
    reply = await backend.post("/api/x", event_id="e", body=b"{}", content_type="application/json")
    return isinstance(reply, Reply)


async def freeze(backend: Backend, turns: int) -> None:
    """Stand still while a request makes its connection, as a paused machine does, until its time is over."""
    asking = asyncio.create_task(is_answered(backend))
    for _ in range(turns):
        await asyncio.sleep(0)
    time.sleep(REQUEST_S_MAX * 1.2)
    await asking


def test_a_process_that_was_frozen_often_while_it_connected_is_answered_again(tmp_path: Path) -> None:
    """Each freeze may cost a place in the pool. On uvloop, as in the process."""
    bounds = limits(
        batches_in_flight_max=1,
        solos_in_flight_max=1,
        blobs_in_flight_max=1,
        request_timeout_s=REQUEST_S_MAX,
        client_keep_alive_s=0.01,
    )

    async def frozen_often() -> None:
        async with (
            ScriptedBackend() as scripted,
            Backend(collector_config(tmp_path, scripted.url, limits=bounds)) as backend,
        ):
            for number in range(FREEZES):
                await freeze(backend, number % TURNS_MAX)
            await eventually(lambda: is_answered(backend), "a request that nothing disturbs is answered")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(frozen_often())


async def test_requests_whose_time_ends_together_make_one_new_client(tmp_path: Path) -> None:
    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    over = asyncio.Event()
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    config = collector_config(tmp_path, url, limits=limits(request_timeout_s=0.2))
    with structlog.testing.capture_logs() as logs:
        async with server, Backend(config) as backend:
            answered = await asyncio.gather(*(is_answered(backend) for _ in range(2 * UNANSWERED_MAX)))
            over.set()
    assert not any(answered)
    assert [line["event"] for line in logs] == ["backend.client_renewed"]
