"""Bytes that were cut out of bodies, in files of one folder, until the store has taken them over.

A file here belongs to one body that has no answer yet: what a kill leaves is removed at the next start, and
the gateway sends that body again.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from asgi.body import BodyBudget, BodyTooLarge
from collector.config import CollectorConfig, Limits
from contracts.base64text import Cut, Sink
from contracts.blobcutter import BlobCutter, put_back
from contracts.gateways.blobplaces import BLOB_MEMBERS
from outbox.store import StoreFull, StoreUnavailable

FOLDER_NAMES: Final = ("blobs", "tmp")
_READ_BYTES: Final = 1024 * 1024
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Spool:
    """The folder, and how much may be on its way through it. One for each process."""

    def __init__(self, config: CollectorConfig) -> None:
        self._folder, self._is_on = config.data_folder.joinpath(*FOLDER_NAMES), config.cut_media
        self._limits = limits = config.limits
        self.memory = BodyBudget(limits.bodies_in_flight_bytes_max)
        """Of all bodies on their way in, whole ones too."""
        self.disk = BodyBudget(limits.media_in_flight_bytes_max)

    def empty(self) -> None:
        """Remove what a kill left. Only whoever holds the store's lock may."""
        with contextlib.suppress(FileNotFoundError):
            for path in self._folder.iterdir():
                path.unlink(missing_ok=True)

    def cutting(self, family: str) -> Spooled | None:
        """For one body of a gateway of that family; None where none of them sends bytes, or none are cut."""
        member = BLOB_MEMBERS.get(family)
        if member is None or not self._is_on:
            return None
        return Spooled(
            folder=self._folder, limits=self._limits, member=member, memory=self.memory, disk=self.disk
        )

    def may_cut(self, raw: bytes) -> bool:
        """False for a body that is too short to hold anything to cut."""
        return len(raw) >= self._limits.media_chars_min


class Spooled:
    """One body on its way in: what is cut out of it goes to files. `close` removes those nobody took over.

    `feed`, `finish` and `put_back` block: they are called in a thread, one at a time, and raise StoreFull or
    StoreUnavailable when a file cannot be written. The rest is for the event loop.
    """

    def __init__(
        self, *, folder: Path, limits: Limits, member: str, memory: BodyBudget, disk: BodyBudget
    ) -> None:
        self._folder, self._text_bytes_max = folder, limits.body_bytes_max
        self._memory, self._disk = memory, disk
        self._memory_taken = self._disk_taken = 0
        self._paths: dict[bytes, Path] = {}
        self._file: io.FileIO | None = None
        self._cutter = BlobCutter(
            key=member,
            nonce=secrets.token_hex(16),
            chars_min=limits.media_chars_min,
            cuts_max=limits.media_count_max,
            open_sink=self._open,
        )

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """What was cut; complete after `finish`."""
        return tuple(self._cutter.cuts)

    @property
    def files(self) -> Mapping[str, Path]:
        """A file of each cut, by its sha256."""
        return {cut.sha256: self._paths[cut.mark] for cut in self._cutter.cuts}

    def feed(self, chunk: bytes) -> bytes:
        """Return what is certain of the skeleton by now."""
        with _translated():
            return self._cutter.feed(chunk)

    def finish(self) -> bytes:
        """Return the rest of the skeleton."""
        with _translated():
            rest = self._cutter.finish()
            self._close_file()
        return rest

    def put_back(self, raw: bytes, cuts: Sequence[Cut]) -> bytes:
        """Return the body with the texts of these cuts in it again; `reserve` comes first."""
        with _translated():
            return put_back(raw, {cut.mark: self._text(cut) for cut in cuts})

    def reserve(self, raw: bytes, cuts: Sequence[Cut]) -> None:
        """Count the memory that putting back takes. Raises BodyTooLarge or BudgetExhausted."""
        more = sum(cut.text_bytes for cut in cuts)
        if len(raw) + more > self._text_bytes_max:
            raise BodyTooLarge
        self.take_memory(more)

    def take_memory(self, size: int) -> None:
        """Count bytes that are held in memory for this body (negative: not any more)."""
        self._memory_taken += _taken(self._memory, size)

    def take_disk(self, size: int) -> None:
        """Count bytes that are on the disk for this body (negative: they are not)."""
        self._disk_taken += _taken(self._disk, size)

    def close(self) -> None:
        """Remove the files that are still here and give back what was counted. Closing twice is fine.

        Raises OSError for a file that cannot be removed: it stays until the next start, and is not counted.
        """
        try:
            self._close_file()
            for path in self._paths.values():
                path.unlink(missing_ok=True)
        finally:
            self._paths.clear()
            self.take_memory(-self._memory_taken)
            self.take_disk(-self._disk_taken)

    def _open(self, mark: bytes) -> Sink:
        self._close_file()
        if not self._paths:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / secrets.token_hex(16)
        file = self._file = io.FileIO(path, "x", opener=_private)
        self._paths[mark] = path
        return partial(_write, file)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _text(self, cut: Cut) -> Callable[[], Iterator[bytes]]:
        path = self._paths[cut.mark]
        return lambda: cut.text(_pieces(path))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _taken(budget: BodyBudget, size: int) -> int:
    if size < 0:
        budget.give(-size)
    else:
        budget.take(size)
    return size


def _write(file: io.FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_READ_BYTES):
            yield piece


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise StoreFull(f"no room for media: {error.strerror}") from error
        raise StoreUnavailable(f"the folder of media: {error.strerror or error}") from error
