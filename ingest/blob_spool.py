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
from typing import Final, NamedTuple

from contracts.blob_upload import PartRange
from ingest.row import UnavailableError

ABANDONED_S: Final = 86_400.0
"""A blob whose sender has not come back for a day begins anew."""
STALLED_S: Final = 60.0
"""Without room for others it does so after this: blobs that fill the spool together could never end."""

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
            descriptor = self._opened(path)
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
            yield Held(path, descriptor, self._has_room)
        finally:
            os.close(descriptor)

    def _opened(self, path: Path) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:  # another machine on this folder took it for that of an earlier boot
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, flags, 0o600)

    def _has_room(self, size: int) -> bool:
        """True when so many bytes may still come; for that, what stalls begins anew, the oldest first."""
        found = self._files()
        room = self._bytes_max - sum(file.size for file in found)
        for file in sorted(found, key=lambda file: file.added_at):
            if room >= size or file.added_at > time.time() - STALLED_S:
                break
            if _forget(file.path):
                room += file.size
        return room >= size

    def forget_abandoned(self) -> None:
        """Remove what nobody has added to for a day."""
        limit = time.time() - ABANDONED_S
        for file in self._files():
            if file.added_at < limit:
                _forget(file.path)

    def _files(self) -> list[_File]:
        """What is there; one that another request ends meanwhile is not."""
        found: list[_File] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    is_at = entry.stat()
                    found.append(_File(Path(entry.path), is_at.st_size, is_at.st_mtime))
        return found


class _File(NamedTuple):
    path: Path
    size: int
    added_at: float


def _forget(path: Path) -> bool:
    """Remove a file that no request holds; False when one does, or it is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


class Held:
    """One blob's file while it is held."""

    def __init__(self, path: Path, descriptor: int, has_room: Callable[[int], bool]) -> None:
        self.path, self._descriptor, self._has_room = path, descriptor, has_room

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
        if not self._has_room(part.size):
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
