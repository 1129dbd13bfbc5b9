"""Figures with a week of backlog: a million records waiting, beside a thousand."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Final

from bench.backlog import measured
from bench.collector_figures import CLIENTS, EVENTS_PREPARED_PER_S, NO_BACKEND, collecting, waiting_in_file
from bench.harness import Line, Options, expect_rows, in_turn, say
from bench.loadclient import run_client

FEW: Final = 1_000
MANY: Final = 1_000_000
START_S_MAX: Final = 2.0
PUTS_PER_S_MIN: Final = 10_000
MEMORY_MIB_MAX: Final = 200


def backlog(_server_dsn: str, options: Options) -> list[Line]:
    """The engine alone in a process of its own, then the collector's door over the same files."""
    with tempfile.TemporaryDirectory(prefix="zlbench-") as temporary:
        folder = Path(temporary)
        few, many = folder / "few", folder / "many"
        taken = [(measured(few, FEW), measured(many, MANY)) for _ in range(options.runs)]
        for small, large in taken:
            say(f"  # {FEW} wait: {small}")
            say(f"  # {MANY} wait: {large}")
        door = _door(folder, few, many, options)

    def median(name: str, place: int) -> float:
        return statistics.median(run[place][name] for run in taken)

    return [
        Line(
            name="start_with_1M_s", ours=median("start_s", 1), reference=START_S_MAX, goal=1.0, at_most=True
        ),
        Line(
            name="engine_puts_per_s_with_1M", ours=median("puts_per_s", 1), reference=PUTS_PER_S_MIN, goal=1.0
        ),
        Line(
            name="claim_ms_1M_vs_1k",
            ours=median("claim_s", 1) * 1000,
            reference=median("claim_s", 0) * 1000,
            goal=0.8,
            at_most=True,
        ),
        Line(
            name="memory_mib_with_1M",
            ours=median("memory_mib", 1),
            reference=MEMORY_MIB_MAX,
            goal=1.0,
            at_most=True,
        ),
        door,
    ]


def _door(folder: Path, few: Path, many: Path, options: Options) -> Line:
    """Webhooks a second; a small backlog is copied for each run, the large one hardly grows."""

    def taken_per_s(over: Path, run: str) -> float:
        before = waiting_in_file(over)
        with collecting(over, NO_BACKEND) as collector:
            load = run_client(
                port=collector.ready.port,
                shape="webhook",
                clients=CLIENTS,
                seconds=options.seconds,
                count=round(EVENTS_PREPARED_PER_S * options.seconds),
                run=run,
            )
        expect_rows("door over a backlog", acknowledged=load.ok, found=waiting_in_file(over) - before)
        return load.per_s

    def over_few(run: str) -> float:
        copy = folder / f"few-{run}"
        shutil.copytree(few, copy)
        return taken_per_s(copy, run)

    small, large = in_turn(
        {"door, 1k wait": over_few, "door, 1M wait": lambda run: taken_per_s(many, run)}, options.runs
    ).values()
    return Line(name="door_rate_1M_vs_1k", ours=large, reference=small, goal=0.8)
