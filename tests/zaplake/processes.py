"""Runs the real ``zaplake`` command as its users do: own process, clean environment, a deadline for all."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
import pytest

from zaplake.keys import ENV_ALIASES, ENV_PREFIX

READY_S: Final = 40.0
STOP_S: Final = 30.0
UNTIL_S: Final = 20.0
ROOT: Final = Path(__file__).parents[2]
T = TypeVar("T")


def clean_environ(more: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without any setting of zaplake."""
    kept = {name: value for name, value in os.environ.items() if not is_setting(name)}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def is_setting(variable: str) -> bool:
    return variable.startswith(ENV_PREFIX) or variable in ENV_ALIASES


def zaplake(
    *arguments: object, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """One command to its end; never a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "zaplake", *map(str, arguments)],
        env=clean_environ(env or {}),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


class Running:
    """A command that runs until it is stopped; its stdout is JSON lines."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process, self.log = process, log
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_for(self, state: str, within_s: float = READY_S) -> dict[str, Any]:
        """The next line of that state; lines before it are passed over."""
        deadline = time.monotonic() + within_s
        while True:
            line = self.next_line(deadline - time.monotonic())
            if line["state"] == state:
                return line

    def next_line(self, within_s: float = READY_S) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(0.01, within_s))
        except queue.Empty:
            pytest.fail(f"no line in time; its log:\n{self.log.read_text()[-4000:]}")
        if line is None:
            pytest.fail(f"it ended; its log:\n{self.log.read_text()[-4000:]}")
        return line

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal and returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(STOP_S)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)


@contextmanager
def running(*arguments: object, log: Path, env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Starts a command; stops it at the end, whatever the test did."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "zaplake", *map(str, arguments)],
            env=clean_environ(env or {}),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield Running(process, log)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            assert process.stdout is not None
            process.stdout.close()


def until(look: Callable[[], T], *, within_s: float = UNTIL_S) -> T:
    """The first truthy answer of ``look``; fails with the last one."""
    deadline = time.monotonic() + within_s
    while not (found := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"never came true; last: {found!r}")
        time.sleep(0.05)
    return found


def post(url: str, body: object) -> httpx.Response:
    """A gateway's webhook."""
    return httpx.post(url, json=body, timeout=10, trust_env=False)


def text_message(message_id: str, text: str = "Oi", instance: str = "loja") -> dict[str, object]:
    """An Evolution webhook of one direct message."""
    return {
        "event": "messages.upsert",
        "instance": instance,
        "data": {
            "key": {"remoteJid": "5511900000002@s.whatsapp.net", "fromMe": False, "id": message_id},
            "pushName": "Ana Prado",
            "status": "DELIVERY_ACK",
            "message": {"conversation": text},
            "messageType": "conversation",
            "messageTimestamp": 1764950400,
            "instanceId": "6f0c1d52-3b7e-4a0c-9f55-0a1b2c3d4e5f",
            "source": "ios",
        },
        "date_time": "2026-11-29T13:00:00.123Z",
        "server_url": "http://evo.exemplo.test",
        "apikey": None,
    }


def rows(data_dir: Path, sql: str) -> list[dict[str, Any]]:
    """``zaplake lake sql --json`` on a data folder."""
    done = zaplake("lake", "sql", sql, "--json", "--data-dir", data_dir)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
