"""A week of backlog: what a store with a million records waiting needs to start, to take and to give."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FEW, MANY = 1_000, 1_000_000
MEMORY_MIB_MAX = 200


def measured(folder: Path, depth: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.backlog", str(folder), str(depth)],
        capture_output=True,
        cwd=ROOT,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    print(f"{depth:>9,} waiting: " + ", ".join(f"{name} {value:,.3f}" for name, value in figures.items()))
    return figures


@pytest.mark.chaos
def test_a_million_waiting_records_fit_in_bounded_memory(tmp_path: Path) -> None:
    """Prints start-up time, puts a second and the time of a claim at both depths; only memory is judged."""
    few, many = measured(tmp_path / "few", FEW), measured(tmp_path / "many", MANY)
    assert max(few["memory_mib"], many["memory_mib"]) < MEMORY_MIB_MAX
