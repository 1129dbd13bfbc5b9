"""Durability beside the database: names of files, and how long this disk takes for a small write."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

PROBE_NAME: Final = "fsync-probe"
PROBES: Final = 5
PROBE_BYTES: Final = 4_096


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; syncing a file leaves its own out. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make the bytes of a file durable, whoever wrote them. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fdatasync_s(folder: Path) -> float | None:
    """The median of a few writes of one page, in seconds; None when the folder cannot be written.

    It is the floor under every acknowledgement.
    """
    path = folder / PROBE_NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            return sorted(_one(descriptor) for _ in range(PROBES))[PROBES // 2]
        finally:
            os.close(descriptor)
            path.unlink()
    except OSError:
        return None


def _one(descriptor: int) -> float:
    os.pwrite(descriptor, bytes(PROBE_BYTES), 0)
    started_s = time.perf_counter()
    os.fdatasync(descriptor)
    return time.perf_counter() - started_s
