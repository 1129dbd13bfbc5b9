"""What ``up`` shows: the six numbers, few redraws, one JSON line a state change."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
import structlog
from rich.console import Console

from ingest.row import Committed
from tests.zaplake.operating import logging_put_back
from zaplake import logs
from zaplake.figures import NUMBERS, Figures, figures_of, words
from zaplake.house import Addresses
from zaplake.settings import LogSettings, Settings
from zaplake.view import JsonLines, LiveTable, PlainLines

ADDRESSES = Addresses(ingest="http://127.0.0.1:1", collector="http://127.0.0.1:2")
STATUS: dict[str, dict[str, object]] = {
    "totals": {"stored": 10, "conflict": 1, "duplicate": 3, "signal": 9},
    "outbox": {"waiting": 2, "claimed": 1, "dead": 4},
    "shipper": {"halted": False, "halt_reason": None, "next_probe_at": None, "delivered": 8},
}
COMMITS = {Committed.STORED: 7, Committed.DUPLICATE: 1}


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    with logging_put_back():
        yield


def figures(**shipper: object) -> Figures:
    return figures_of({**STATUS, "shipper": {**STATUS["shipper"], **shipper}}, COMMITS)


async def look_for_a_while(
    watcher: JsonLines | PlainLines | LiveTable, *seen: Figures, s: float = 0.9
) -> None:
    """Watches until ``s`` seconds passed; the last figures stay."""
    left = list(seen)

    async def look() -> Figures:
        return left.pop(0) if len(left) > 1 else left[0]

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(s):
            await watcher.watch(look, ADDRESSES)


def test_the_numbers_come_from_the_collector_and_the_commits() -> None:
    assert [getattr(figures(), name) for name in NUMBERS] == [11, 2, 8, 7, 4, 4]
    assert words(figures()) == "captured 11  waiting 2  shipped 8  stored 7  duplicates 4  dead 4"
    assert "halted: 401" in figures(halted=True, halt_reason="401 unauthorized").trouble
    assert "waits on disk" in figures(next_probe_at="2026-11-29T00:00:00+00:00").trouble


async def test_a_terminal_sees_the_table_at_most_four_times_a_second() -> None:
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    await look_for_a_while(LiveTable(console, Settings()), figures(halted=True, halt_reason="401"), s=1.2)
    shown = out.getvalue()
    assert 2 <= shown.count("duplicates") <= 5
    assert "http://127.0.0.1:2/gateways/evolution/<instance>" in shown
    assert "shipping is halted: 401" in shown
    assert "│ 11 " in shown


def test_the_question_to_the_lake_can_be_typed_as_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["a folder/bin/zaplake", "up"])
    monkeypatch.setenv("PATH", "")
    out = StringIO()
    PlainLines(out, Settings(data_dir=Path("my data"))).changed("ready", ADDRESSES)
    words = shlex.split(out.getvalue().splitlines()[-1].removeprefix("Ask the lake: "))
    assert words[:3] == ["a folder/bin/zaplake", "lake", "sql"]
    assert words[4:] == ["--data-dir", "my data"]


async def test_a_pipe_sees_plain_lines() -> None:
    out = StringIO()
    lines = PlainLines(out, Settings())
    lines.changed("ready", ADDRESSES)
    await look_for_a_while(lines, figures(), s=0.2)
    shown = out.getvalue()
    assert "\x1b" not in shown
    assert shown.splitlines()[0] == "zaplake ready"
    assert "  waha       http://127.0.0.1:2/gateways/waha/<instance>" in shown.splitlines()
    assert shown.splitlines()[-1] == words(figures())


async def test_a_machine_sees_state_changes_only() -> None:
    out = StringIO()
    lines = JsonLines(out, Settings(), look_s=0.02)
    lines.changed("ready", ADDRESSES)
    paused = figures(next_probe_at="2026-11-29T00:00:00+00:00")
    await look_for_a_while(lines, figures(), paused, paused, figures(), s=0.3)
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["state"] for line in said] == ["ready", "shipping_paused", "shipping_again"]
    assert said[0]["gateways"]["baileys"] == "http://127.0.0.1:2/gateways/baileys"
    assert {line["ingest"] for line in said} == {ADDRESSES.ingest}


def test_logs_begin_with_the_event_and_keep_to_their_level() -> None:
    out = StringIO()
    logs.configure(LogSettings(level="info"), out)
    log = structlog.get_logger("x")
    log.debug("too.quiet")
    log.info("something.happened", count=3)
    line = out.getvalue()
    assert line.startswith('{"event": "something.happened", "level": "info", "count": 3, "timestamp": "')
    assert "too.quiet" not in line
    text = StringIO()
    logs.configure(LogSettings(format="text"), text)
    structlog.get_logger("x").warning("something.else")
    assert "something.else" in text.getvalue()
    assert "{" not in text.getvalue()
