"""Processes of a test's own that start at once: a server of multiprocessing imports for them and forks them.

They are real processes: they have a pid, die by SIGKILL, and share nothing with the test but one socket,
which is their stdin and stdout.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final, Self

IMPORTED: Final = (
    "tests.collector.process",
    "tests.support.dying",
    "tests.support.queue_worker",
    "tests.support.working",
)
"""What the server imports, once a test session; what else a process needs it imports by itself."""

_context: Final = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(IMPORTED))


class Prepared:
    """A process, with as much of ``asyncio.subprocess.Process`` as the tests need."""

    def __init__(
        self,
        process: ForkServerProcess,
        leash: socket.socket,
        stdout: asyncio.StreamReader,
        stdin: asyncio.StreamWriter,
    ) -> None:
        self.stdout, self.stdin, self._leash = stdout, stdin, leash
        self._process = process
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(process.sentinel, self._heard)

    @classmethod
    async def start(cls, module: str, arguments: Sequence[str], *, log: Path | None = None) -> Self:
        """``main()`` of that module with these arguments; ``log`` takes its stderr, else it is the test's."""
        ours, theirs = socket.socketpair()
        leash, collar = socket.socketpair()
        arguments = list(arguments)
        process = _context.Process(
            target=_born, args=(module, arguments, dict(os.environ), theirs, collar, log), daemon=True
        )
        with theirs, collar:
            process.start()
        return cls(process, leash, *await asyncio.open_connection(sock=ours))

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """As of ``subprocess``; None while it lives."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Does nothing to a process that ended, though its end may not have been heard of yet."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Its return code, once it ended."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def close(self) -> None:
        """Of a process that ended: gives back what the test held of it."""
        self.stdin.close()
        self._leash.close()

    def _heard(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._ended.set()


def _born(
    module: str,
    arguments: list[str],
    environ: dict[str, str],
    line: socket.socket,
    collar: socket.socket,
    log: Path | None,
) -> None:
    """In the new process, which ends with the test's own."""
    os.environ.clear()
    os.environ.update(environ)  # the server has that of the test which started it
    threading.Thread(target=_end_with, args=(collar,), daemon=True).start()
    for number in (0, 1):
        os.dup2(line.fileno(), number)
    line.close()
    if log is not None:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.argv = [module, *arguments]
    importlib.import_module(module).main()


def _end_with(collar: socket.socket) -> None:
    """Nobody writes there: it is readable when whoever holds the other end is gone."""
    collar.recv(1)
    os._exit(1)
