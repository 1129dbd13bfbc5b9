"""Whether the disk has room for new records: keeps the reserve, and the write-ahead log within its limit."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import Final

from outbox import sqlite_statements as sql
from outbox.reserve import Reserve
from outbox.sqlite_file import FILE_NAME
from outbox.store import StoreFull, StoreLimits

RESERVE_NAME: Final = "reserve"
REGAIN_EVERY_S: Final = 1.0
"""How often room is looked for while there is none."""
COMMITS_PER_LOOK: Final = 64
"""Commits between two looks at the size of the log."""


class DiskRoom:
    """Without room nothing new is taken; what frees room goes on, with the reserve's help.

    Whoever gives the reserve up gets it back here, within about a second of the disk having room again and
    without a restart. It is for settling and forgetting only: a put that ate it would end the shipping.
    """

    def __init__(self, folder: Path, limits: StoreLimits) -> None:
        self._wal = folder / f"{FILE_NAME}-wal"
        self._wal_bytes_max = limits.wal_bytes_max
        self._reserve = Reserve(folder / RESERVE_NAME, limits.reserve_bytes)
        self._commits = 0
        self._regain_at_s = 0.0
        self.wal_bytes = 0

    @property
    def has_reserve(self) -> bool:
        return self._reserve.held

    @property
    def _is_short(self) -> bool:
        return not self._reserve.held or self.wal_bytes >= self._wal_bytes_max

    def admit(self) -> None:
        """Raises StoreFull while the disk has no room for something new."""
        if not self._reserve.held:
            raise StoreFull("the disk is full: what waits is shipped before anything new is taken")
        if self.wal_bytes >= self._wal_bytes_max:
            raise StoreFull(f"the write-ahead log has {self.wal_bytes} bytes: somebody keeps the file open")

    def take_reserve(self) -> None:
        """At the start; a disk without room for it takes nothing new until it has."""
        self._reserve.take()

    def give_reserve(self) -> bool:
        """Free the reserve's room for what is done next; False when that was done before."""
        self._regain_at_s = time.monotonic() + REGAIN_EVERY_S
        return self._reserve.give()

    def before_transaction(self, connection: sqlite3.Connection) -> None:
        """Look for room when there is none; never raises."""
        if self._is_short and time.monotonic() >= self._regain_at_s:
            with contextlib.suppress(sqlite3.Error):
                connection.executescript(sql.FREE_MANY_PAGES)
                self.checkpoint(connection)
            self._reserve.take()
            self.look()
            self._regain_at_s = time.monotonic() + REGAIN_EVERY_S

    def after_commit(self) -> None:
        self._commits += 1
        if self._commits % COMMITS_PER_LOOK == 0:
            self.look()

    def look(self) -> None:
        """Measure the log."""
        try:
            self.wal_bytes = self._wal.stat().st_size
        except OSError:
            self.wal_bytes = 0

    def checkpoint(self, connection: sqlite3.Connection) -> bool:
        """Shorten the log, waiting for nobody; False when a reader is in the way."""
        connection.execute(sql.WAIT_NEVER).fetchall()
        try:
            busy, _log, _moved = connection.execute(sql.CHECKPOINT).fetchone()
        finally:
            connection.execute(sql.WAIT_AGAIN).fetchall()
        self.look()
        return not busy
