"""A command that runs until it is stopped needs nobody who reads its stdout, neither to run nor to stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest

from asgi.types import Receive, Scope, Send
from contracts.envelope import EVENT_PATH
from tests.collector.scripted import SECRET, ScriptedBackend
from tests.support.rabbitmq import free_port
from tests.zaplake.operating import served
from tests.zaplake.processes import STOP_S, clean_environ, post, text_message, until, zaplake

COLLECT_ENV = {"ZAPLAKE_SIGNING_SECRETS": SECRET.decode()}


class Held(ScriptedBackend):
    """It has an event, and answers when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.came, self.goes_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(EVENT_PATH):
            self.came.set()
            await self.goes_on.wait()
        await super().__call__(scope, receive, send)


@contextlib.contextmanager
def saying_to(
    out: int | IO[bytes], *arguments: object, env: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A command with that stdout, killed at the end when it still runs."""
    command = [sys.executable, "-m", "zaplake", *map(str, arguments)]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, env=clean_environ(env), stdout=out, stderr=errors) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def stopped(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(STOP_S)


def is_closed(url: str) -> bool:
    parts = httpx.URL(url)
    assert parts.port is not None
    try:
        socket.create_connection((parts.host, parts.port), timeout=STOP_S).close()
    except ConnectionRefusedError:
        return True
    return False


def runs(folder: Path) -> bool:
    said = zaplake("collector", "status", "--json", "--data-dir", folder)
    return said.returncode == 0 and bool(json.loads(said.stdout)["running"])


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["lines", "json"])
@pytest.mark.parametrize("command", ["collect", "up"])
def test_a_full_disk_under_stdout_ends_nothing(
    command: str, as_json: tuple[str, ...], dsn: str, folder: Path
) -> None:
    ports = ("--collector-port", 0, *(("--http-port", 0) if command == "up" else ()))
    env = {**COLLECT_ENV, "ZAPLAKE_COLLECTOR_BACKEND_URL": "http://127.0.0.1:1"}
    if command == "up":
        env = {"DATABASE_URL": dsn}
    arguments = (command, *ports, *as_json, "--data-dir", folder)
    log = folder / "log"
    with Path("/dev/full").open("wb") as full, saying_to(full, *arguments, env=env, log=log) as process:
        until(lambda: process.poll() is not None or runs(folder))
        assert (stopped(process), "Errno" in log.read_text()) == (0, False), log.read_text()


@pytest.mark.parametrize(("command", "option"), [("serve", "--http-port"), ("work", "--work-port")])
def test_a_full_disk_under_stdout_ends_no_backend_and_no_rules(
    command: str, option: str, dsn: str, folder: Path
) -> None:
    url, log = f"http://127.0.0.1:{(port := free_port())}", folder / "log"
    env = {**COLLECT_ENV, "DATABASE_URL": dsn}
    with (
        Path("/dev/full").open("wb") as full,
        saying_to(full, command, option, port, env=env, log=log) as process,
    ):
        until(lambda: process.poll() is not None or not is_closed(url))
        assert (stopped(process), "Errno" in log.read_text()) == (0, False), log.read_text()


def test_a_terminal_that_goes_away_ends_nothing(dsn: str, folder: Path) -> None:
    ports = ("--collector-port", 0, "--http-port", 0)
    ours, its = os.openpty()
    log, env = folder / "log", {"DATABASE_URL": dsn, "TERM": "xterm", "COLUMNS": "200"}
    with saying_to(its, "up", *ports, "--data-dir", folder, env=env, log=log) as process:
        os.close(its)
        shown = b""
        while b"Ask the lake" not in shown:
            shown += os.read(ours, 4096)  # fails with EIO when the process has ended
        os.close(ours)
        assert stopped(process) == 0, log.read_text()


async def test_a_reader_that_left_keeps_no_event_from_its_backend(folder: Path) -> None:
    held = Held()
    async with served(held) as url:
        env = {**COLLECT_ENV, "ZAPLAKE_COLLECTOR_BACKEND_URL": url}
        arguments = ("collect", "--json", "--collector-port", 0, "--data-dir", folder)
        with saying_to(subprocess.PIPE, *arguments, env=env, log=folder / "log") as process:
            assert process.stdout is not None, "made with a pipe"
            door = json.loads(await asyncio.to_thread(process.stdout.readline))["gateways"]["evolution"]
            process.stdout.close()
            answer = await asyncio.to_thread(post, f"{door}/loja", text_message("3EB0UNREAD1"))
            assert answer.status_code == 200
            await asyncio.wait_for(held.came.wait(), STOP_S)
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(until, lambda: is_closed(door))
            held.goes_on.set()
            assert await asyncio.to_thread(process.wait, STOP_S) == 0
    said = await asyncio.to_thread(zaplake, "collector", "status", "--json", "--data-dir", folder)
    assert json.loads(said.stdout)["outbox"]["waiting"] == 0
    assert len(held.stored) == 1
