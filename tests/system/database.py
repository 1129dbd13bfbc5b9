"""A database server of a test's own, since it is taken away, frozen or filled."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

from tests.support.load import until
from zaplake.embedded import EmbeddedPostgres

AWAY_S_MAX = 60.0


@contextmanager
def own_server() -> Iterator[EmbeddedPostgres]:
    """Stopped and deleted at the end."""
    temporary = tempfile.TemporaryDirectory(prefix="zl", ignore_cleanup_errors=True)
    with temporary as folder, closing(EmbeddedPostgres(Path(folder))) as server:
        yield server


def postmaster(server: EmbeddedPostgres) -> psutil.Process:
    return psutil.Process(int((server.pgdata / "postmaster.pid").read_text().split("\n", 1)[0]))


async def take_away(server: EmbeddedPostgres, how: signal.Signals) -> None:
    """Returns when it has stopped: SIGINT is ``pg_ctl stop -m fast``, SIGQUIT ``-m immediate``."""
    pid = postmaster(server).pid
    os.kill(pid, how)
    await until("Postgres is away", lambda: not psutil.pid_exists(pid), seconds_max=AWAY_S_MAX)


@contextmanager
def frozen(server: EmbeddedPostgres) -> Iterator[None]:
    """Each process of the server stands still; connections stay and nothing is answered."""
    root = postmaster(server)
    root.suspend()
    children = root.children(recursive=True)
    try:
        for child in children:
            child.suspend()
        yield
    finally:
        for process in (*children, root):
            if process.is_running():
                process.resume()
