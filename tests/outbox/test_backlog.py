"""A backlog, test size: what a process with many records waiting needs; ``make bench`` measures a million."""

from __future__ import annotations

from pathlib import Path

from bench.backlog import measured

MANY, PUTS = 20_000, 500
MEMORY_MIB_MAX = 100


def test_many_waiting_records_fit_in_bounded_memory(tmp_path: Path) -> None:
    """Prints start-up time, puts a second and the time of a claim; only memory is judged."""
    figures = measured(tmp_path / "many", MANY, PUTS)
    print(f"{MANY:,} waiting: " + ", ".join(f"{name} {value:,.3f}" for name, value in figures.items()))
    assert figures["memory_mib"] < MEMORY_MIB_MAX
