"""How much memory a process had at most."""

from __future__ import annotations

from pathlib import Path


def peak_rss_bytes(pid: int) -> int:
    """The largest resident size since the process began."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)
