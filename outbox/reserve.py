"""A file that holds room on the disk, given up so that deletes can be finished when the disk is full."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_BLOCK: Final = 512
"""What ``st_blocks`` counts, on every system."""


class Reserve:
    """``held`` says whether the room is there. Not safe for two threads."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._path, self._size_bytes = path, size_bytes
        self.held = False

    def take(self) -> bool:
        """Hold the room, with blocks of its own; False when the disk has none."""
        if self._size_bytes == 0 or self._is_whole():
            self.held = True
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self._size_bytes)
            finally:
                os.close(descriptor)
        except OSError:
            self.give()
        else:
            self.held = True
        return self.held

    def give(self) -> bool:
        """Give the room back to the disk; False when there was none to give."""
        self.held = False
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def _is_whole(self) -> bool:
        try:
            found = self._path.stat()
        except OSError:
            return False
        return found.st_size == self._size_bytes and found.st_blocks * _BLOCK >= self._size_bytes
