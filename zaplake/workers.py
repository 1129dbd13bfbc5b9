"""Several processes of ``serve`` on one port: the kernel spreads the connections; one that dies ends all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

from zaplake.process import naming_the_port
from zaplake.trouble import Trouble

READY_S_MAX: Final = 30.0
STOP_S_MAX: Final = 30.0


async def run_workers(
    count: int,
    arguments: Sequence[str],
    *,
    host: str,
    port: int,
    stop: asyncio.Event,
    on_ready: Callable[[int], None],
) -> None:
    """Runs ``zaplake ARGUMENTS`` ``count`` times on one port, until ``stop`` or until one of them dies."""
    with naming_the_port(host, port, "--http-port"), _reserved(host, port) as taken:
        command = (
            sys.executable,
            "-m",
            "zaplake",
            *arguments,
            "--http-port",
            str(taken),
            "--worker",
            "--json",
        )
        async with _started(command, count) as workers:
            await asyncio.gather(*map(_ready, workers))
            on_ready(taken)
            waits = [asyncio.create_task(worker.wait()) for worker in workers]
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait({*waits, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in (*waits, stopped):
                task.cancel()
            if not stop.is_set():
                raise Trouble(
                    "a worker of `zaplake serve` ended, so the others are stopped too",
                    "its reason is above; a supervisor (systemd, compose) should start serve again",
                )


async def stdin_closed() -> None:
    """Returns when the parent is gone: its end of our stdin closes with it."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while await reader.read(1024):
        pass


@contextlib.asynccontextmanager
async def _started(command: Sequence[str], count: int) -> AsyncIterator[list[Process]]:
    """The workers; at the end all are asked to stop at once, since each may need its whole time for it."""
    workers: list[Process] = []
    try:
        while len(workers) < count:
            workers.append(
                await asyncio.create_subprocess_exec(
                    *command, stdin=PIPE, stdout=PIPE, start_new_session=True
                )
            )
        yield workers
    finally:
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                worker.terminate()
        await asyncio.gather(*map(_ended, workers))


async def _ended(worker: Process) -> None:
    try:
        await asyncio.wait_for(worker.wait(), STOP_S_MAX)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()


async def _ready(worker: Process) -> None:
    assert worker.stdout is not None, "made with a pipe"
    try:
        line = await asyncio.wait_for(worker.stdout.readline(), READY_S_MAX)
    except TimeoutError as error:
        raise Trouble("a worker did not get ready", "its reason is above; `zaplake doctor`") from error
    if not line or json.loads(line).get("state") != "ready":
        raise Trouble("a worker ended while it started", "its reason is above; `zaplake doctor`")


@contextlib.contextmanager
def _reserved(host: str, port: int) -> Iterator[int]:
    """Holds the port without listening, so that port 0 is one port for all workers."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind((host, port))
        yield holder.getsockname()[1]
