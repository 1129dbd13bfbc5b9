"""A disk that forgets what was not synced when the power goes: a VFS of SQLite, and a connection over it.

The files are real; beside them it is kept what a real disk would still have after a cut: everything that was
synced, and of each later write any of its sectors or none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import apsw

SECTOR_BYTES: Final = 512

Write: TypeAlias = tuple[int, bytes | None]
"""Offset and bytes; None: the file ends at the offset."""
Values: TypeAlias = "Sequence[Any] | Mapping[str, Any]"


class PowerCut(Exception):
    """The power is gone; nothing works any more."""


@dataclass(slots=True)
class _Kept:
    synced: bytearray
    pending: list[Write] = field(default_factory=list)

    def sync(self) -> None:
        for offset, data in self.pending:
            _write(self.synced, offset, data)
        self.pending.clear()

    def after_cut(self, chance: random.Random) -> bytes:
        image = bytearray(self.synced)
        kept_share = chance.choice((0.0, 0.5, 0.9))
        for offset, data in self.pending:
            if data is None:
                if chance.random() < kept_share:
                    _write(image, offset, None)
                continue
            for start in range(0, len(data), SECTOR_BYTES):
                if chance.random() < kept_share:
                    _write(image, offset + start, data[start : start + SECTOR_BYTES])
        return bytes(image)


def _write(image: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del image[offset:]
        return
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


class Disk:
    """Counts writes and syncs; at ``cut_at`` of them the power goes."""

    def __init__(self, cut_at: int | None) -> None:
        self.steps = 0
        self.is_off = False
        self._cut_at = cut_at
        self._files: dict[str, _Kept] = {}

    def step(self) -> None:
        self.steps += 1
        if self._cut_at is not None and self.steps >= self._cut_at:
            self.is_off = True
        self.need_power()

    def need_power(self) -> None:
        if self.is_off:
            raise PowerCut

    def open(self, path: str) -> _Kept:
        """What was there before is durable."""
        if path not in self._files:
            found = Path(path)
            self._files[path] = _Kept(bytearray(found.read_bytes() if found.exists() else b""))
        return self._files[path]

    def forget(self, path: str) -> None:
        self._files.pop(path, None)

    def leave(self, folder: Path, chance: random.Random) -> None:
        """Write to ``folder`` what a machine that starts again would find."""
        folder.mkdir(parents=True)
        for path, kept in self._files.items():
            (folder / Path(path).name).write_bytes(kept.after_cut(chance))


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._kept = disk.open(name.filename() if isinstance(name, apsw.URIFilename) else name)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802  as SQLite calls it
        self._disk.need_power()
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  as SQLite calls it
        self._disk.step()
        super().xWrite(data, offset)
        self._kept.pending.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  as SQLite calls it
        self._disk.step()
        super().xTruncate(newsize)
        self._kept.pending.append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802  as SQLite calls it
        self._disk.step()
        self._kept.sync()


class PowerVfs(apsw.VFS):
    """Every file that is opened through it is on the disk."""

    def __init__(self, disk: Disk, name: str) -> None:
        super().__init__(name, "")
        self._disk = disk

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802  as SQLite calls it
        self._disk.need_power()
        return _File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802  as SQLite calls it
        self._disk.step()
        super().xDelete(filename, syncdir)
        self._disk.forget(filename)


class _Cursor:
    """What the store uses of sqlite3's cursor."""

    def __init__(self, db: apsw.Connection, statement: str, values: Values) -> None:
        self._rows = db.execute(statement, values or None)
        self.rowcount = db.changes()
        self.lastrowid = db.last_insert_rowid()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)

    def fetchone(self) -> Any:
        return next(iter(self._rows), None)

    def fetchall(self) -> list[Any]:
        return list(self._rows)

    def close(self) -> None:
        self._rows.close(True)


class PowerConnection:
    """What the store uses of sqlite3's connection, on that disk."""

    def __init__(self, path: Path, vfs: str) -> None:
        self._db = apsw.Connection(str(path), vfs=vfs)

    @property
    def in_transaction(self) -> bool:
        return self._db.in_transaction

    def execute(self, statement: str, values: Values = ()) -> _Cursor:
        return _Cursor(self._db, statement, values)

    def executescript(self, script: str) -> None:
        self._db.execute(script).fetchall()

    def close(self) -> None:
        self._db.close(True)
