"""A test's own ingest process: the real service, whose commit kills it at a chosen fault point."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence

from asgi.server import HttpServer
from ingest.config import IngestConfig
from ingest.row import CommitBatch, Committed, Row
from ingest.service import open_service, same_commit
from zaplake.process import run_until_stopped

BEFORE, AFTER = "before-commit", "after-commit"
SECRET_VARIABLE = "ZAPLAKE_TEST_SECRET"


def killing(point: str, number: int) -> Callable[[CommitBatch], CommitBatch]:
    """Wraps the lanes' commits: the process dies by SIGKILL at the ``number``-th one, before or after it."""
    left = number

    def around(commit: CommitBatch) -> CommitBatch:
        async def faulty(rows: Sequence[Row]) -> list[Committed]:
            nonlocal left
            left -= 1
            is_last = left == 0
            if is_last and point == BEFORE:
                os.kill(os.getpid(), signal.SIGKILL)
            fates = await commit(rows)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return fates

        return faulty

    return around


async def serve(arguments: argparse.Namespace, stop: asyncio.Event) -> None:
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
    arguments = parser.parse_args()
    run_until_stopped(lambda stop: serve(arguments, stop))


if __name__ == "__main__":
    main()
