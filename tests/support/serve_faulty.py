"""A test's own ingest process: the real service, whose commit kills it at a chosen fault point."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence

import uvloop

from asgi.server import HttpServer
from ingest.config import IngestConfig
from ingest.row import CommitBatch, Committed, Row
from ingest.service import open_service, same_commit

BEFORE, AFTER = "before-commit", "after-commit"
SECRET_VARIABLE = "ZAPLAKE_TEST_SECRET"


def killing(point: str, number: int) -> Callable[[CommitBatch], CommitBatch]:
    """Wraps the lanes' commits: the process dies by SIGKILL at the ``number``-th one, before or after it."""
    left = number

    def around(commit: CommitBatch) -> CommitBatch:
        async def faulty(rows: Sequence[Row]) -> list[Committed]:
            nonlocal left
            left -= 1
            if left == 0 and point == BEFORE:
                os.kill(os.getpid(), signal.SIGKILL)
            last = left == 0
            fates = await commit(rows)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return fates

        return faulty

    return around


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    config = IngestConfig(dsn=arguments.dsn, secrets=(os.environ[SECRET_VARIABLE].encode(),))
    around = killing(arguments.kill_at, arguments.kill_on) if arguments.kill_at else same_commit
    async with open_service(config, around_commit=around) as service:
        server = HttpServer(
            service.app, host="127.0.0.1", port=arguments.port, reuse_port=arguments.reuse_port
        )
        print(json.dumps({"state": "ready", "port": await server.start()}), flush=True)
        await stop.wait()
        await service.drain()
        await server.stop(5)


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--reuse-port", action="store_true")
    parser.add_argument("--kill-at", choices=(BEFORE, AFTER))
    parser.add_argument("--kill-on", type=int, default=1, help="the number of the commit")
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
