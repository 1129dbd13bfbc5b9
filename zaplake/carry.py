"""Carries a collector's records to a file and from a file to a collector, page by page in bounded memory."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import json
import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any, BinaryIO, Final

from collector.carrying import PAGE_BYTES_MAX, PAGE_RECORDS_MAX
from collector.offline import Session
from outbox.fsync import sync_file, sync_folder
from outbox.kept import KeptState
from zaplake.trouble import Trouble, UsageTrouble

LINE_BYTES_MAX: Final = 250 * 1024 * 1024
BAD_LINES_TOLD_MAX: Final = 20


@dataclass(slots=True, kw_only=True)
class Brought:
    """How far an import is, or how it ended."""

    lines: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    blobs_missing: int = 0
    bad_lines: int = 0
    bad: list[tuple[int, str]] = field(default_factory=list)
    """The first twenty: line number and reason."""

    def refuse(self, number: int, reason: str) -> None:
        """Counts a line that is no record."""
        self.bad_lines += 1
        if len(self.bad) < BAD_LINES_TOLD_MAX:
            self.bad.append((number, reason))


async def export(
    session: Session, path: Path, states: Sequence[KeptState], on_page: Callable[[int], None]
) -> Counter[str]:
    """Writes ``path`` (0600), which appears when it is complete and synced; returns records by state.

    The files of their blobs go to a folder beside it, ``path`` with ``.blobs``, which is made when needed.

    Raises UsageTrouble when it is there already, Trouble when it cannot be written.
    """
    if await asyncio.to_thread(path.exists):
        raise UsageTrouble(f"there is already a file {path}", "name another: an export overwrites nothing")
    draft = path.with_name(f"{path.name}.part")
    counts: Counter[str] = Counter()
    try:
        with _writing(draft, zipped=path.suffix == ".gz") as file:
            for state in states:
                after = 0
                while True:
                    page: Any = await session.ask({"verb": "export", "state": state, "after": after})
                    if not page["records"]:
                        break
                    after = page["after"]
                    await asyncio.to_thread(_copy_blobs, page["records"], session.blob_folder, path)
                    await asyncio.to_thread(file.write, _lines_of(page["records"]))
                    counts[state] += len(page["records"])
                    on_page(counts.total())
        _publish(draft, path)
    except OSError as error:
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        step = "free the disk, or name another place" if is_full else "name a place in a folder of your own"
        raise Trouble(f"cannot write {path}: {error.strerror or error}", step) from error
    finally:
        draft.unlink(missing_ok=True)
    return counts


async def bring(session: Session, path: Path, on_page: Callable[[int], None]) -> Brought:
    """Brings the records of ``path`` in; ``on_page`` hears how many bytes of the file are read.

    Raises Trouble when the file cannot be read to its end; what was brought until then stays, and bringing
    the file again adds only the rest.
    """
    brought = Brought()
    try:
        with path.open("rb") as raw:
            lines = _numbered(gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw, brought)
            while page := await asyncio.to_thread(_next_page, lines):
                numbers, records = zip(*page, strict=True)
                wanted = {"verb": "import", "records": list(records), "blobs": str(blobs_beside(path))}
                answer: Any = await session.ask(wanted)
                brought.counts.update(answer["counts"])
                brought.blobs_missing += answer["blobs_missing"]
                for bad in answer["bad"]:
                    brought.refuse(numbers[bad["place"]], bad["reason"])
                on_page(raw.tell())
    except (OSError, EOFError, zlib.error) as error:
        raise Trouble(
            f"{path} cannot be read behind line {brought.lines}: {error}",
            "export it again and import that: what was brought is not doubled",
        ) from error
    return brought


def blobs_beside(path: Path) -> Path:
    """The folder of the blobs of an exported file."""
    return path.resolve().with_name(f"{path.name}.blobs")


def _copy_blobs(records: Sequence[Any], source: Path, path: Path) -> None:
    """One that is not there any more was delivered meanwhile."""
    folder = blobs_beside(path)
    for sha256 in {blob["sha256"] for record in records for blob in record.get("blobs", ())}:
        folder.mkdir(mode=0o700, exist_ok=True)
        copy = folder / sha256
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(source / sha256, copy)
            sync_file(copy)
    if folder.is_dir():
        sync_folder(folder)


def _writing(draft: Path, *, zipped: bool) -> _Draft:
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    return _Draft(os.fdopen(descriptor, "wb"), zipped=zipped)


class _Draft:
    """A file that is complete and synced when the block ends well."""

    def __init__(self, file: BinaryIO, *, zipped: bool) -> None:
        self._file = file
        self._zip = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if zipped else None

    def write(self, data: bytes) -> None:
        (self._zip or self._file).write(data)

    def __enter__(self) -> _Draft:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        with self._file:
            if kind is None:
                if self._zip is not None:
                    self._zip.close()
                self._file.flush()
                os.fsync(self._file.fileno())


def _publish(draft: Path, path: Path) -> None:
    os.link(draft, path)  # unlike a rename, it never replaces what came meanwhile
    sync_folder(path.parent)


def _lines_of(records: Sequence[object]) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def _numbered(file: BufferedIOBase, brought: Brought) -> Iterator[tuple[int, int, object]]:
    """Line number, bytes and JSON value of each line that has one; the others are refused."""
    while line := file.readline(LINE_BYTES_MAX + 1):
        brought.lines += 1
        if len(line) > LINE_BYTES_MAX:
            brought.refuse(brought.lines, f"longer than {LINE_BYTES_MAX} bytes")
            while line and not line.endswith(b"\n"):
                line = file.readline(LINE_BYTES_MAX)
        elif line.strip():
            try:
                yield brought.lines, len(line), json.loads(line)
            except (ValueError, RecursionError) as error:
                brought.refuse(brought.lines, f"not JSON: {error}"[:200])


def _next_page(lines: Iterator[tuple[int, int, object]]) -> list[tuple[int, object]]:
    page: list[tuple[int, object]] = []
    size = 0
    for number, length, record in lines:
        page.append((number, record))
        size += length
        if len(page) >= PAGE_RECORDS_MAX or size >= PAGE_BYTES_MAX:
            break
    return page
