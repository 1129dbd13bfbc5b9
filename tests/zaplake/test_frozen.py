"""A collector that stands still is told as one; one that works for long is waited for."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from collector import control
from collector.control import ask
from collector.verbs import unheard
from tests.collector.running import collector_config
from tests.collector.running import running as collecting
from tests.zaplake.operating import Operator
from tests.zaplake.processes import STOP_S, running

ENV = {
    "ZAPLAKE_SIGNING_SECRETS": "a-secret-of-this-test",
    "ZAPLAKE_COLLECTOR_BACKEND_URL": "http://127.0.0.1:1",
}
NOWHERE = "http://127.0.0.1:1"


def test_a_frozen_collector_is_told_as_one(
    folder: Path, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "SILENCE_S_MAX", 1.0)
    options = ("--data-dir", folder)
    said = f"the collector of {folder}/outbox does not answer: it hangs or is stopped"
    with running("collect", "--json", "--collector-port", 0, *options, log=folder / "log", env=ENV) as frozen:
        frozen.next_line()
        frozen.process.send_signal(signal.SIGSTOP)
        try:
            for command in (("status",), ("dead", "list"), ("export", folder / "out.jsonl")):
                refused = operator.run("collector", *command, *options, env=ENV)
                assert (refused.code, refused.err.splitlines()[0]) == (1, f"zaplake: {said}")
            found = operator.run("doctor", *options, env=ENV)
        finally:
            frozen.process.send_signal(signal.SIGCONT)
        assert (found.code, f"WRONG {said}\n      → see its log" in found.out) == (1, True), found.out
        assert "no collector runs" not in found.out
        assert operator.run("collector", "status", *options, env=ENV).code == 0
        assert frozen.stop() == 0


async def test_a_collector_that_works_for_long_says_that_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "ALIVE_S", 0.1)
    monkeypatch.setattr(control, "SILENCE_S_MAX", 3.0)
    slow = tmp_path / "slow.jsonl"
    os.mkfifo(slow)  # loading it takes as long as nobody writes
    async with collecting(collector_config(tmp_path, NOWHERE)) as collector:
        path = collector.config.socket_path
        load = asyncio.create_task(ask(path, {"verb": "load", "path": str(slow)}, unheard))
        try:
            await asyncio.wait({load}, timeout=1.5 * control.SILENCE_S_MAX)
            assert not load.done(), load
        finally:
            await asyncio.to_thread(slow.write_bytes, b"{\n")
        assert (await asyncio.wait_for(load, STOP_S))["bad_lines"] == 1
