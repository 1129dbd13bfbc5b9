"""What an operator is told when something is wrong: what it is, what to do next, and the exit code."""

from __future__ import annotations

from pathlib import Path


class Trouble(Exception):
    """Ends a command with exit code 1; printed as two lines, never as a traceback."""

    exit_code = 1

    def __init__(self, what: str, next_step: str) -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.what}\n  → {self.next_step}"


class UsageTrouble(Trouble):
    """The command line or the settings are wrong: exit code 2."""

    exit_code = 2


def collector_hangs(folder: Path) -> Trouble:
    """Its process is there and says nothing."""
    return Trouble(
        f"the collector of {folder} does not answer: it hangs or is stopped",
        "see its log; let it go on (kill -CONT PID), or kill it and start it again: what it took is kept",
    )
