"""The files of blobs in a folder of their own: durable before anything refers to them, gone after that."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from outbox.fsync import sync_folder
from outbox.record import NewBlob
from outbox.store import StoreFull, StoreUnavailable

FOLDER_NAME: Final = "blobs"

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class BlobFiles:
    """Files named by their sha256. Used by the thread that commits and by those that put.

    A put pins its blobs from before its files are kept until after its commit, so that a delivery meanwhile
    does not remove the file that it counts on.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pins: Counter[str] = Counter()
        self._lock = threading.Lock()

    def path_of(self, sha256: str) -> Path:
        return self._folder / sha256

    def pin(self, sha256s: Iterable[str]) -> None:
        with self._lock:
            self._pins.update(sha256s)

    def unpin(self, sha256s: Iterable[str]) -> list[str]:
        """Those that nobody pins any more."""
        with self._lock:
            self._pins.subtract(sha256s)
            free = [sha256 for sha256 in sha256s if self._pins[sha256] <= 0]
            for sha256 in free:
                del self._pins[sha256]
            return free

    def keep(self, blobs: Sequence[NewBlob]) -> None:
        """Take the files over under their names; names and bytes are durable when it returns.

        A file that is there already is replaced: it may be damaged, the new one was just hashed. Of a path or
        a sha256 that stands there twice the first is taken; what else was brought is removed. Raises
        StoreFull, StoreUnavailable, and ValueError when a file is not of the size that was said.
        """
        taken: dict[str, Path] = {}
        try:
            if not self._folder.is_dir():
                self._folder.mkdir(mode=0o700, exist_ok=True)
                sync_folder(self._folder.parent)
            for blob in blobs:
                if blob.sha256 not in taken:
                    taken[blob.sha256] = blob.path
                    self._take(blob)
                elif blob.path != taken[blob.sha256]:
                    blob.path.unlink(missing_ok=True)
            sync_folder(self._folder)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise StoreFull(f"the disk is full: {error.strerror}") from error
            raise StoreUnavailable(f"the folder of blobs: {error.strerror or error}") from error

    def _take(self, blob: NewBlob) -> None:
        if _SHA256.fullmatch(blob.sha256) is None:
            raise ValueError("a blob is named by 64 hex digits in lower case")
        descriptor = os.open(blob.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if size != blob.bytes:
                raise ValueError(f"a blob of {blob.bytes} bytes came as a file of {size}")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        blob.path.rename(self.path_of(blob.sha256))

    def drop(self, sha256s: Iterable[str]) -> None:
        """Remove the files that nobody pins. One that cannot be removed now is by the next ``sweep``."""
        for sha256 in sha256s:
            with self._lock:
                if self._pins[sha256] <= 0:
                    del self._pins[sha256]
                    with contextlib.suppress(OSError):
                        self.path_of(sha256).unlink()

    def orphans(self, is_known: Callable[[str], bool]) -> list[tuple[str, int]]:
        """Name and size of files that nobody knows: a put that was never committed left them."""
        found: list[tuple[str, int]] = []
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            found.extend(
                (entry.name, entry.stat().st_size)
                for entry in entries
                if _SHA256.fullmatch(entry.name) and not is_known(entry.name)
            )
        return found
