"""``python -m bench [figure…]``: prints ours, the reference, their ratio and the goal, one line a figure."""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable
from typing import Final

from bench import (
    backend_figures,
    backlog_figures,
    broker_figures,
    collector_figures,
    inbox_delay,
    inbox_figures,
    media_figures,
    postgres,
    queue_figures,
)
from bench.harness import Line, Options, say
from zaplake.process import spare_collector

FIGURES: Final[dict[str, Callable[[str, Options], list[Line]]]] = {
    "events": backend_figures.events,
    "batches": backend_figures.batches,
    "door": collector_figures.door,
    "shipping": collector_figures.shipping,
    "backlog": backlog_figures.backlog,
    "broker": broker_figures.broker,
    "media": media_figures.media,
    "inbox": inbox_figures.inbox,
    "delay": inbox_delay.delay,
    "queue": queue_figures.queue,
}


def main() -> int:
    """1 when a figure misses its goal; an exception when a run's rows do not add up."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "figures", nargs="*", choices=[[], *FIGURES], help=f"of {', '.join(FIGURES)}; default all"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each run is loaded")
    parser.add_argument(
        "--runs", type=int, default=3, help="runs of ours and of each reference; their median counts"
    )
    asked = parser.parse_args()
    gc.freeze()  # as in every process of zaplake,
    spare_collector()  # and as in `work`; the references run in this one too
    options = Options(seconds=asked.seconds, runs=asked.runs)
    lines: list[Line] = []
    with postgres.server() as dsn:
        promised = " ".join(f"{name}={value}" for name, value in postgres.durability(dsn).items())
        say(f"# {os.cpu_count()} cores; postgres: {promised}")
        for name in asked.figures or FIGURES:
            lines += FIGURES[name](dsn, options)
    for line in lines:
        say(str(line))
    missed = [line.name for line in lines if not line.reached]
    if missed:
        say(f"# missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
