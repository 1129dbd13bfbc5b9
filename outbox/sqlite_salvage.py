"""What a damaged file still holds is carried into a new one; the damaged one is set aside, never changed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from outbox import sqlite_salvage_statements as sql
from outbox.sqlite_damage import Damaged, as_us
from outbox.sqlite_file import (
    BESIDE,
    FILE_NAME,
    begin_fresh,
    connect,
    drop_fresh,
    name_fresh,
    set_aside,
    translated,
)
from outbox.sqlite_repair import lenient, repaired
from outbox.sqlite_statements import CHECKPOINT
from outbox.store import StoreCorrupt

Rows: TypeAlias = "Iterator[tuple[Any, ...]]"

UNREADABLE: Final = (sqlite3.Error, UnicodeDecodeError)
"""SQLite quotes a damaged schema in its error, which Python cannot read."""
SET_ASIDE_MAX: Final = 5
"""Damaged files kept; a disk that damages more needs a person."""
FAILURES_MAX: Final = 100_000
"""Unreadable ranges of one table after which the rest of them is given up."""
ROWS_PER_COMMIT: Final = 2_000
ROWS_PER_PAGE_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """What became of a damaged file. ``lost`` is None when it cannot be told any more."""

    reason: str
    file: str
    waiting: int
    dead: int
    seen: int
    lost: int | None

    def __str__(self) -> str:
        lost = "an unknown number" if self.lost is None else str(self.lost)
        return (
            f"{self.reason}; set aside as {self.file}; carried over: {self.waiting} waiting, "
            f"{self.dead} dead, {self.seen} seen; lost: {lost} of the waiting"
        )


def open_or_salvage(
    folder: Path, now: datetime, damage: str | None = None
) -> tuple[sqlite3.Connection, Salvage | None]:
    """Open the folder's file; one that is damaged, or called so by ``damage``, is salvaged first."""
    if damage is None:
        try:
            with translated():
                _look(folder)
                return connect(folder, now), None
        except Damaged as error:
            damage = str(error)
    salvaged = salvage(folder, now, damage)
    return connect(folder, now), salvaged


def _look(folder: Path) -> None:
    """Meet damage while nothing can be changed: closing a damaged file moves its log into it."""
    if (folder / FILE_NAME).exists():
        with (
            contextlib.closing(_open_damaged(folder)) as connection,
            contextlib.suppress(sqlite3.OperationalError),
        ):
            connection.execute(sql.DEPTH).fetchone()


def salvage(folder: Path, now: datetime, reason: str) -> Salvage:
    """Replace the folder's file by a new one with its readable rows, a new epoch and honest depths.

    A crash amid it changes nothing or is finished by the next start. An id whose record is gone is forgotten,
    so that a repetition is stored. Raises StoreCorrupt when too many files stand aside already.
    """
    if len(list(folder.glob(f"{FILE_NAME}.corrupt-*Z"))) >= SET_ASIDE_MAX:
        raise StoreCorrupt(f"{SET_ASIDE_MAX} damaged files stand in {folder}: the disk needs a person")
    new = begin_fresh(folder)
    try:
        with contextlib.closing(_open_damaged(folder)) as old:
            before = _depth(old)
            _carry(old, new, as_us(now))
        waiting, dead, seen = _count(new)
        # Closing says nothing of a log that finds no room in the file; the file is named without it.
        new.execute(CHECKPOINT).fetchone()
    except BaseException:
        new.close()
        drop_fresh(folder)  # a part of a file would only take the room that the next attempt needs
        raise
    new.close()
    aside = set_aside(folder, BESIDE, now)
    name_fresh(folder)
    lost = None if before is None else max(0, before - waiting)
    return Salvage(reason=reason, file=aside, waiting=waiting, dead=dead, seen=seen, lost=lost)


def _open_damaged(folder: Path) -> sqlite3.Connection:
    """Read-only, so that closing it moves nothing from the log into the file."""
    path = folder / FILE_NAME
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.text_factory = lenient
    for pragma in sql.LOOK_CLOSELY:
        connection.execute(pragma)
    return connection


def _depth(old: sqlite3.Connection) -> int | None:
    try:
        row = old.execute(sql.DEPTH).fetchone()
    except UNREADABLE:
        return None
    return row[0] if row is not None and isinstance(row[0], int) else None


def _carry(old: sqlite3.Connection, new: sqlite3.Connection, now: int) -> None:
    for table, columns in sql.BY_ROWID.items():
        if not _has(old, table):
            continue
        _insert(new, table, ("rowid", *columns), _by_rowid(old, table, columns), now)
    for table, (key, columns) in sql.BY_KEY.items():
        _insert(new, table, columns, _by_key(old, table, key, columns), now)
    if new.execute(sql.NAMELESS).fetchone()[0]:
        named = ((rowid, id_, digest, "", now, None) for rowid, id_, digest in _from_index(old))
        _insert(new, "ids", ("rowid", *sql.BY_ROWID["ids"]), named, now, only=sql.IS_NAMELESS)
    new.execute("BEGIN IMMEDIATE")
    for statement in sql.TIDY:
        new.execute(statement)
    new.execute("COMMIT")


def _has(old: sqlite3.Connection, table: str) -> bool:
    """True also when it cannot be told."""
    try:
        return bool(old.execute(sql.HAS_TABLE, (table,)).fetchone()[0])
    except UNREADABLE:
        return True


def _insert(
    new: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    rows: Rows,
    now: int,
    only: str | None = None,
) -> None:
    """Rows that the new file refuses (twice the same key, another type) are damaged, too."""
    marks = ", ".join("?" * len(columns))
    statement = sql.INSERT.format(table=table, columns=", ".join(columns), marks=marks)
    new.execute("BEGIN IMMEDIATE")
    for number, row in enumerate(repaired(table, columns, rows, now), 1):
        if only is None or new.execute(only, row[:1]).fetchone()[0]:
            with contextlib.suppress(sqlite3.IntegrityError):
                new.execute(statement, row)
        if number % ROWS_PER_COMMIT == 0:
            new.execute("COMMIT")
            new.execute("BEGIN IMMEDIATE")
    new.execute("COMMIT")


def _by_rowid(old: sqlite3.Connection, table: str, columns: Sequence[str]) -> Rows:
    """Rows of every range that can be read: a range that fails is halved, the larger ranges first."""
    statement = sql.RANGE.format(table=table, columns=", ".join(columns))
    ranges = deque([(_edge(old, table, "min", 1), _edge(old, table, "max", _rowid_guess(old)))])
    failures = 0
    while ranges and failures < FAILURES_MAX:
        low, high = ranges.popleft()
        last = low - 1
        try:
            for row in old.execute(statement, (low, high)):
                if not last < row[0] <= high:
                    raise sqlite3.DatabaseError("rows out of order")
                yield row
                last = row[0]
        except UNREADABLE:
            failures += 1
            low = last + 1
            if low < high:
                middle = (low + high) // 2
                ranges += [(low, middle), (middle + 1, high)]


def _edge(old: sqlite3.Connection, table: str, which: str, otherwise: int) -> int:
    try:
        found = old.execute(sql.EDGE.format(which=which, table=table)).fetchone()[0]
    except UNREADABLE:
        return otherwise
    return otherwise if found is None else int(found)


def _rowid_guess(old: sqlite3.Connection) -> int:
    """Above any rowid that a damaged table may hold."""
    guesses = []
    for statement in sql.HIGHEST:
        with contextlib.suppress(*UNREADABLE):
            guesses.append(old.execute(statement).fetchone()[0] or 0)
    with contextlib.suppress(*UNREADABLE):
        guesses.append(old.execute("PRAGMA page_count").fetchone()[0] * ROWS_PER_PAGE_MAX)
    return max(guesses, default=1)


def _by_key(old: sqlite3.Connection, table: str, key: str, columns: Sequence[str]) -> Rows:
    """A table without rowids: from the one end to the damage, then from the other."""
    for order in ("ASC", "DESC"):
        statement = sql.WALK.format(table=table, columns=", ".join(columns), key=key, order=order)
        try:
            yield from old.execute(statement)
        except UNREADABLE:
            continue
        return


def _from_index(old: sqlite3.Connection) -> Iterator[tuple[int, str, bytes]]:
    """Ids whose own rows are damaged stand in their unique index, too."""
    for order in ("ASC", "DESC"):
        with contextlib.suppress(*UNREADABLE):
            yield from old.execute(sql.IDS_INDEX.format(order=order))


def _count(new: sqlite3.Connection) -> tuple[int, int, int]:
    waiting, dead, seen = new.execute(sql.COUNTS).fetchone()
    return waiting, dead, seen
