"""Parts of blobs on their way in: a file a blob, shared by the processes of one machine and boot."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from contracts.blob_upload import PartRange
from ingest.row import UnavailableError

ABANDONED_S: Final = 86_400.0
"""A blob whose sender has not come back for a day begins anew."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class BlobSpool:
    """Blocking; to be called in threads. Nothing here is synced, since it can be sent again.

    What a killed process wrote is still there for the next one, and is a beginning of the blob. A machine
    that went down may have lost any of it: hence a folder a boot.
    """

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self._folder, self._bytes_max = folder / _boot(), bytes_max

    def open(self) -> None:
        """Make the folder, remove those of earlier boots. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in self._folder.parent.iterdir():
            if other != self._folder:
                shutil.rmtree(other, ignore_errors=True)

    def offset(self, sha256: str) -> int:
        """How many bytes of the blob are there."""
        try:
            return (self._folder / sha256).stat().st_size
        except OSError:
            return 0

    @contextlib.contextmanager
    def holding(self, sha256: str) -> Iterator[Held]:
        """The blob's file for this request alone. Raises UnavailableError when another one has it."""
        path = self._folder / sha256
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnavailableError(f"the spool of blobs: {error.strerror}") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_named = os.fstat(descriptor).st_nlink > 0
            except OSError:
                is_named = False
            if not is_named:
                raise UnavailableError("another request brings this blob")
            yield Held(path, descriptor, self._room)
        finally:
            os.close(descriptor)

    def _room(self) -> int:
        """Bytes that may still come."""
        with os.scandir(self._folder) as entries:
            return self._bytes_max - sum(entry.stat().st_size for entry in entries)

    def forget_abandoned(self) -> None:
        """Remove what nobody has added to for a day."""
        limit = time.time() - ABANDONED_S
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.stat().st_mtime < limit:
                    Path(entry.path).unlink(missing_ok=True)


class Held:
    """One blob's file while it is held."""

    def __init__(self, path: Path, descriptor: int, room: Callable[[], int]) -> None:
        self.path, self._descriptor, self._room = path, descriptor, room

    def add(self, part: PartRange, body: bytes) -> int:
        """Write the part where it belongs, unless it does not follow what is there; returns the new offset.

        Raises UnavailableError when there is no room; what is there stays.
        """
        size = os.fstat(self._descriptor).st_size
        if size > part.total:
            self.clear()
            size = 0
        if not part.first <= size < part.first + part.size:
            return size
        if self._room() < part.size:
            raise UnavailableError("the spool of blobs is full")
        try:
            _write_all(self._descriptor, body[size - part.first :], size)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
            raise UnavailableError(f"the spool of blobs: {error.strerror}") from error
        return part.first + part.size

    def clear(self) -> None:
        """Begin anew."""
        os.ftruncate(self._descriptor, 0)

    def done(self) -> None:
        """It is kept elsewhere, or is none."""
        self.path.unlink(missing_ok=True)


def _write_all(descriptor: int, body: bytes, offset: int) -> None:
    view = memoryview(body)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return secrets.token_hex(16)  # a system that does not tell: nothing is resumed over a restart
