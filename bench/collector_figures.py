"""Figures of the collector: its door, its memory, and how fast it ships a backlog (issue 2, "Figures")."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
import urllib.request
from contextlib import AbstractContextManager, closing
from pathlib import Path

import msgspec

from bench import postgres
from bench.harness import Line, Options, expect_rows, in_turn, say
from bench.loadclient import run_client
from bench.serve import Running, running
from outbox.sqlite_file import FILE_NAME

CLIENTS = 64
EVENTS_PREPARED_PER_S = 20_000
BACKLOG = 100_000
SMALL_BACKLOG = 1_000
MEMORY_MIB_MAX = 20.0
SHIPPED_PER_S_MIN = 10_000
SHIP_S_MAX = 120.0
FILL_S_MAX = 120.0
NO_BACKEND = "http://127.0.0.1:9"
"""Port 9 is "discard": nothing listens there, every connection is refused at once."""


def door(_server_dsn: str, options: Options) -> list[Line]:
    """The webhook door, 64 clients, nothing shipped."""

    def taken_per_s(run: str, *flags: str) -> float:
        with tempfile.TemporaryDirectory(prefix="zlbench-") as folder:
            with collecting(Path(folder), NO_BACKEND, *flags) as collector:
                load = run_client(
                    port=collector.ready.port,
                    shape="webhook",
                    clients=CLIENTS,
                    seconds=options.seconds,
                    count=round(EVENTS_PREPARED_PER_S * options.seconds),
                    run=run,
                )
            if run == "00":
                say(f"  # door {' '.join(flags) or 'ours'}: {collector.ready.durability}")
            expect_rows("door", acknowledged=load.ok, found=waiting_in_file(Path(folder)))
        return load.per_s

    ours, each, no_sync = in_turn(
        {
            "door: ours": taken_per_s,
            "door: commit per event": lambda run: taken_per_s(run, "--per-event"),
            "door: synchronous=OFF": lambda run: taken_per_s(run, "--synchronous=OFF"),
        },
        options.runs,
    ).values()
    return [
        Line(name="collector_door_vs_commit_per_event", ours=ours, reference=each, goal=3.0),
        Line(name="collector_door_vs_synchronous_off", ours=ours, reference=no_sync, goal=0.75),
    ]


def shipping(server_dsn: str, options: Options) -> list[Line]:
    """A backlog of 100,000: memory while it grows at the door, then how fast it is shipped and committed."""
    with tempfile.TemporaryDirectory(prefix="zlbench-") as folder:
        backlog = Path(folder) / "backlog"
        grown_mib = _fill(backlog)

        def shipped_per_s(run: str) -> float:
            copy = Path(folder) / f"run{run}"
            shutil.copytree(backlog, copy)
            try:
                with postgres.database(server_dsn, f"shipping{run}") as dsn:
                    with running("ingest", "--dsn", dsn) as ingest:
                        url = f"http://127.0.0.1:{ingest.ready.port}"
                        with collecting(copy, url) as collector:
                            started = time.perf_counter()
                            until_waiting(collector, 0, SHIP_S_MAX)
                            elapsed = time.perf_counter() - started
                            say(f"  # collector after shipping: {_rss_mib(collector.pid):.1f} MiB")
                    expect_rows("shipping", acknowledged=BACKLOG, found=postgres.rows(dsn))
            finally:
                shutil.rmtree(copy)
            return BACKLOG / elapsed

        (rate,) = in_turn({"shipping: ours": shipped_per_s}, options.runs).values()
    return [
        Line(name="shipping_records_per_s", ours=rate, reference=SHIPPED_PER_S_MIN, goal=1.0),
        Line(
            name="collector_memory_growth_mib",
            ours=max(grown_mib, 0.1),
            reference=MEMORY_MIB_MAX,
            goal=1.0,
            at_most=True,
        ),
    ]


def _fill(folder: Path) -> float:
    """Fill an outbox through the door while the backend is away; returns how many MiB that cost."""
    with collecting(folder, NO_BACKEND) as collector:
        _post(collector, "A", SMALL_BACKLOG)
        until_waiting(collector, SMALL_BACKLOG, FILL_S_MAX)
        small = _rss_mib(collector.pid)
        _post(collector, "B", BACKLOG - SMALL_BACKLOG)
        until_waiting(collector, BACKLOG, FILL_S_MAX)
        large = _rss_mib(collector.pid)
    say(f"  # collector: {small:.1f} MiB with {SMALL_BACKLOG} waiting, {large:.1f} MiB with {BACKLOG}")
    expect_rows("backlog", acknowledged=BACKLOG, found=waiting_in_file(folder))
    return large - small


def _post(collector: Running, run: str, count: int) -> None:
    load = run_client(
        port=collector.ready.port,
        shape="webhook",
        clients=CLIENTS,
        seconds=FILL_S_MAX,
        count=count,
        run=run,
    )
    expect_rows("fill", acknowledged=load.ok, found=count)


def collecting(folder: Path, backend_url: str, *flags: str) -> AbstractContextManager[Running]:
    """A collector's process on that folder."""
    return running("collector", f"--folder={folder}", f"--backend-url={backend_url}", *flags)


def until_waiting(collector: Running, depth: int, seconds_max: float) -> None:
    """Returns when so many records wait in the collector's outbox; TimeoutError when they never do."""
    deadline = time.monotonic() + seconds_max
    while (waiting := _waiting(collector)) != depth:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{waiting} records wait, not {depth}")
        time.sleep(0.02)


def _waiting(collector: Running) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{collector.ready.port}/status", timeout=10) as answer:
        return int(msgspec.json.decode(answer.read())["outbox"]["waiting"])


def waiting_in_file(folder: Path) -> int:
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        return int(connection.execute("SELECT count(*) FROM outbox").fetchone()[0])


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)
