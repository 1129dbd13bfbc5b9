"""What doctor tries on this machine alone: folder, disk, how fast a write is durable, the SQLite build."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from outbox.fsync import fdatasync_s
from outbox.sqlite_version import OLDEST, Version, described
from zaplake.finding import Finding

DISK_FREE_BYTES_MIN: Final = 1 << 30
SYNC_S_MAX: Final = 0.1
"""Every answer to a gateway waits for one such write, shared with its neighbours."""


def examine_machine(folder: Path, free_bytes_min: int = DISK_FREE_BYTES_MIN) -> Iterator[Finding]:
    """``folder`` is the data folder, made or not yet."""
    place = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        yield Finding(
            what=f"the data folder {folder} cannot be written",
            next_step="chown it to this user, or --data-dir DIR",
        )
        return
    free = shutil.disk_usage(place).free
    if free < free_bytes_min:
        yield Finding(
            what=f"only {free >> 20} MiB are free at {place}",
            next_step="free some disk: a full disk stops the outbox, and gateways would get 503",
        )
    else:
        yield Finding(what=f"data folder {folder}: writable, {free >> 30} GiB free")
    yield synced(fdatasync_s(place))
    yield built(sqlite3.sqlite_version_info)


def synced(seconds: float | None) -> Finding:
    """What the time of one synced write means."""
    if seconds is None:
        return Finding(what="a synced write failed", next_step="look at the disk: dmesg, its free space")
    if seconds > SYNC_S_MAX:
        return Finding(
            what=f"a synced write takes {seconds * 1000:.0f} ms: each answer to a gateway waits for one",
            next_step="put the data folder on a local disk that is not busy (no network share)",
        )
    return Finding(what=f"a synced write takes {seconds * 1000:.1f} ms")


def built(version: Version) -> Finding:
    """What the SQLite of this Python means."""
    if version < OLDEST:
        return Finding(
            what=f"SQLite {'.'.join(map(str, version))} is too old for the outbox",
            next_step=f"use a Python with SQLite {'.'.join(map(str, OLDEST))} or newer",
        )
    return Finding(what=described(version))
