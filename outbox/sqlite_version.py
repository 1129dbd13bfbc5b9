"""Which builds of SQLite the store runs on, and which of them have the WAL-reset bug."""

from __future__ import annotations

from typing import Final, TypeAlias

Version: TypeAlias = tuple[int, int, int]

OLDEST: Final[Version] = (3, 38, 0)
"""STRICT tables and ``->>``."""

# Two connections that write or checkpoint at the same moment could overlook a part of the log (from 3.7.0
# on; sqlite.org/wal.html). The store cannot meet it: the folder is locked for one process, and one
# connection in one thread does all writes and all checkpoints. A shell opened beside it could.
_FIXED: Final[Version] = (3, 51, 3)
_FIXED_IN_BRANCH: Final[tuple[Version, ...]] = ((3, 44, 6), (3, 50, 7))


def has_wal_reset_bug(version: Version) -> bool:
    """True for builds in which it was not repaired."""
    in_branch = any(version[:2] == fixed[:2] and version >= fixed for fixed in _FIXED_IN_BRANCH)
    return version < _FIXED and not in_branch


def described(version: Version) -> str:
    """For status and doctor, such as ``SQLite 3.45.1 (WAL-reset bug: one writer only)``."""
    note = " (WAL-reset bug: let nobody else write this file)" if has_wal_reset_bug(version) else ""
    return f"SQLite {'.'.join(str(part) for part in version)}{note}"
