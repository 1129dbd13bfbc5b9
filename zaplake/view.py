"""What ``zaplake up`` shows: a live table on a terminal, plain lines elsewhere, JSON lines for machines."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from typing import Final, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from contracts.configured import default_gateways
from zaplake import logs
from zaplake.figures import NUMBERS, Figures, LookAt, words
from zaplake.house import Addresses, StateName
from zaplake.settings import Settings

REDRAW_S: Final = 0.5
"""At most four redraws a second are allowed; two are enough."""
ASK: Final = 'lake sql "select kind, count(*) from lake.whatsapp_event_logs group by kind"'
LINE_S: Final = 10.0
LOOK_S: Final = 1.0


class JsonLines:
    """One JSON object a line and state change; ``ready`` is the first."""

    def __init__(self, out: TextIO, settings: Settings, *, look_s: float = LOOK_S) -> None:
        self._out, self._settings, self._look_s = out, settings, look_s

    def changed(self, state: StateName | str, addresses: Addresses) -> None:
        """Writes the line at once."""
        document: dict[str, object] = {
            "state": state,
            "ingest": addresses.ingest,
            "collector": addresses.collector,
        }
        if state == "ready":
            document |= {
                "gateways": gateway_urls(self._settings, addresses.collector),
                "data_dir": str(self._settings.data_dir.resolve()),
                "pid": os.getpid(),
            }
        print(json.dumps(document), file=self._out, flush=True)

    async def watch(self, look: LookAt, addresses: Addresses) -> None:
        """Says when shipping stops and when it goes on."""
        before = ""
        while True:
            await asyncio.sleep(self._look_s)
            now = (await look()).trouble
            if bool(now) != bool(before):
                self.changed("shipping_again" if not now else "shipping_paused", addresses)
            before = now


class PlainLines:
    """For a log file or a pipe: where to point the gateway, then a line now and then."""

    def __init__(self, out: TextIO, settings: Settings, note: str = "") -> None:
        """``note`` is shown with where to point the gateway."""
        self._out, self._settings, self._note = out, settings, note

    def changed(self, state: StateName, addresses: Addresses) -> None:
        """Writes the line at once."""
        self._say(f"zaplake {state.replace('_', ' ')}")
        if state == "ready":
            for line in _how_to(self._settings, addresses, self._note):
                self._say(line)

    async def watch(self, look: LookAt, addresses: Addresses) -> None:
        """A line of figures whenever they changed, every ten seconds at most."""
        before = None
        while True:
            figures = await look()
            if figures != before:
                self._say(words(figures))
            before = figures
            await asyncio.sleep(LINE_S)

    def _say(self, line: str) -> None:
        print(line, file=self._out, flush=True)


class LiveTable:
    """For a person at a terminal."""

    def __init__(self, console: Console, settings: Settings, note: str = "") -> None:
        """``note`` is shown with where to point the gateway."""
        self._console, self._settings, self._note = console, settings, note

    def changed(self, state: StateName, addresses: Addresses) -> None:
        """Only what is not in the table."""
        if state != "ready":
            self._console.print(f"zaplake {state.replace('_', ' ')}", highlight=False)

    async def watch(self, look: LookAt, addresses: Addresses) -> None:
        """Redraws twice a second; log lines pass above."""
        with Live(console=self._console, auto_refresh=False) as live:
            logs.configure(self._settings.log)  # sys.stderr is Rich's now
            while True:
                live.update(self._drawing(await look(), addresses), refresh=True)
                await asyncio.sleep(REDRAW_S)

    def _drawing(self, figures: Figures, addresses: Addresses) -> Group:
        table = Table(*NUMBERS, title="zaplake")
        table.add_row(*(f"{getattr(figures, name):,}" for name in NUMBERS))
        lines = [Text(line) for line in _how_to(self._settings, addresses, self._note)]
        return Group(
            table, *lines, Text(figures.trouble, style="bold red"), Text("Ctrl-C stops it.", style="dim")
        )


def gateway_urls(settings: Settings, collector: str) -> dict[str, str]:
    """The door of each gateway at the collector of that URL."""
    gateways = settings.gateways or default_gateways()
    return {gateway.name: f"{collector}/gateways/{gateway.name}" for gateway in gateways}


def told_doors(doors: Mapping[str, str]) -> list[str]:
    """Lines that say where a gateway's webhook goes."""
    return [
        "Point your gateway's webhook here:",
        *(f"  {name:<10} {url}/<instance>" for name, url in doors.items()),
    ]


def _how_to(settings: Settings, addresses: Addresses, note: str) -> list[str]:
    lines = told_doors(gateway_urls(settings, addresses.collector))
    if note:
        lines.append(note)
    lines.append(f"Ask the lake: {_program()} {ASK}{_where(settings)}")
    return lines


def _program() -> str:
    """How this person can call us: by name where the shell finds it, else as it was called now."""
    called = sys.argv[0]
    is_path = called.endswith("/zaplake") and shutil.which("zaplake") is None
    return shlex.quote(called) if is_path else "zaplake"


def _where(settings: Settings) -> str:
    is_default = settings.database_url is not None or settings.data_dir == Settings().data_dir
    return "" if is_default else f" --data-dir {shlex.quote(str(settings.data_dir))}"
