"""Runs commands in a thread of the test's process, and serves stand-ins in its loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog

from asgi.server import HttpServer
from asgi.types import AsgiApp
from tests.zaplake.processes import is_setting
from zaplake.cli import run


class Said(NamedTuple):
    """What a command printed."""

    code: int
    out: str
    err: str


@contextlib.asynccontextmanager
async def served(app: AsgiApp) -> AsyncIterator[str]:
    server = HttpServer(app, port=0)
    try:
        yield f"http://127.0.0.1:{await server.start()}"
    finally:
        await server.stop(0.5)


class Operator:
    """Runs `zaplake …` in this process, which saves half a second, in a clean environment and folder."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch

    async def __call__(
        self, *arguments: object, env: Mapping[str, str] | None = None, hidden: Iterable[str] = ()
    ) -> Said:
        """What it printed, which holds nothing that is ``hidden``; the loop goes on meanwhile."""
        said = await asyncio.to_thread(self.run, *arguments, env=env)
        for secret in hidden:
            assert secret not in said.out + said.err
        return said

    def run(self, *arguments: object, env: Mapping[str, str] | None = None) -> Said:
        """The same for a test without a loop."""
        with self._monkeypatch.context() as patch:
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            self._capsys.readouterr()
            code = run([str(argument) for argument in arguments])
            return Said(code, *self._capsys.readouterr())


@contextlib.contextmanager
def operating(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> Iterator[Operator]:
    """An operator in ``folder``."""
    for name in filter(is_setting, list(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    with logging_put_back():
        yield Operator(capsys, monkeypatch)


@contextlib.contextmanager
def logging_put_back() -> Iterator[None]:
    """What the block configured is gone after it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()
