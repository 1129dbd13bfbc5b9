"""The SQLite store's operations, synchronous and confined to the writer thread."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

from outbox import sqlite_blobs, sqlite_last
from outbox import sqlite_statements as sql
from outbox.blob_files import FOLDER_NAME, BlobFiles
from outbox.blobs import MarkLost, unmarked
from outbox.clock import Clock
from outbox.fsync import fdatasync_s
from outbox.guarding import rule
from outbox.record import NewRecord, PutOutcome, PutResult, Stamp
from outbox.sqlite_blob_statements import PARKED
from outbox.sqlite_damage import Damaged, as_us, typed
from outbox.sqlite_file import WriteFailed, translated
from outbox.sqlite_labels import Labels
from outbox.sqlite_room import DiskRoom
from outbox.sqlite_salvage import Salvage, open_or_salvage
from outbox.sqlite_values import Ledger, text
from outbox.store import (
    SIGHTING_CHANNELS_MAX,
    StoreFull,
    StoreLimits,
    StoreUnavailable,
)

SALVAGE_EVERY_S: Final = 1.0
"""How often a salvage that failed is tried again."""


class SqliteEngine:
    """One connection. ``begin`` … operations … ``commit`` or ``rollback``; the ledger follows."""

    def __init__(
        self, folder: Path, clock: Clock, limits: StoreLimits, mark_lost: MarkLost = unmarked
    ) -> None:
        self.folder = folder
        self.files = BlobFiles(folder / FOLDER_NAME)
        self.mark_lost = mark_lost
        self.unneeded: list[str] = []
        """Blobs that this transaction has forgotten: their files go when it is committed."""
        self.clock = clock
        self.limits = limits
        self.room = DiskRoom(folder, limits)
        self.salvaged: Salvage | None = None
        """What became of the file that was found damaged last."""
        self.opened = 0
        self._damage: str | None = None
        """Why the file must be salvaged before it is opened."""
        self._is_open = self._takes_in = False
        self._open_at_s = 0.0
        self._open()
        self.room.take_reserve()
        self.fsync_s = fdatasync_s(folder)
        self._lease = 0

    def _open(self) -> None:
        """A full disk may not even have room for the log's index: then the reserve lets what waits go."""
        try:
            self._connect()
        except (StoreFull, WriteFailed):
            if not self.room.give_reserve():
                raise
            self._connect()
        self.opened += 1
        self.labels = Labels(self.connection)
        epoch, *values = self.connection.execute(sql.LEDGER_READ).fetchone()
        self.epoch: str = epoch
        self._written = tuple(values)
        self.ledger = self._ledger()
        try:
            with translated():
                sqlite_blobs.tidy(self, is_salvaged=self._takes_in)
        except Damaged as error:
            if self._takes_in:
                raise
            self.connection.close()
            self._damage = str(error)
            self._open()
        self._is_open, self._takes_in = True, False

    def _connect(self) -> None:
        with translated():
            self.connection, salvaged = open_or_salvage(self.folder, self.clock.now(), self._damage)
        self._damage = None
        if salvaged is not None:
            self.salvaged, self._takes_in = salvaged, True

    def reopen(self, opened: int, damage: str) -> None:
        """Salvage a file that was found damaged at work, once for all who found it while it was ``opened``.

        Leases end with it: what was claimed is claimed again.
        """
        if opened == self.opened:
            self._damage, self._is_open, self._open_at_s = damage, False, 0.0
            self.ready()

    def ready(self) -> None:
        """Before any operation: a salvage that failed is tried again, for as long as its disk is full.

        Not more often than every second, nor more than half of the time: it reads the whole file.
        """
        if self._is_open:
            return
        started_s = time.monotonic()
        if started_s < self._open_at_s:
            raise StoreUnavailable("the outbox file is damaged and could not be salvaged yet")
        self.connection.close()
        try:
            self._open()
        finally:
            ended_s = time.monotonic()
            self._open_at_s = ended_s + max(SALVAGE_EVERY_S, ended_s - started_s)

    def _ledger(self) -> Ledger:
        return Ledger(**{field.name: n for field, n in zip(fields(Ledger), self._written, strict=True)})

    def begin(self) -> None:
        self.ready()
        self.room.before_transaction(self.connection)
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        values = self.ledger.values()
        if values != self._written:
            self.connection.execute(sql.LEDGER_WRITE, values)
        self.connection.execute("COMMIT")
        self._written = values
        self.room.after_commit()
        if self.unneeded:
            self.files.drop(self.unneeded)
            self.unneeded.clear()

    def rollback(self) -> None:
        self.labels.forget()
        self.ledger = self._ledger()
        self.unneeded.clear()
        if self.connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the transaction is over in any case
                self.connection.execute("ROLLBACK")

    def close(self) -> None:
        self.connection.close()

    # put

    def put(self, records: Sequence[NewRecord]) -> list[PutResult]:
        now = as_us(self.clock.now())
        before = (self.ledger.waiting, self.ledger.bytes)
        return [self.put_one(record, now, before) for record in records]

    def put_one(self, record: NewRecord, now: int, before: tuple[int, int] | None = None) -> PutResult:
        """``before``: records and bytes waiting before the call; None: what had its place here already."""
        id_ = record.id if isinstance(record.id, str) else None
        digests = [] if id_ is None else self.known(id_)
        if id_ is not None and record.digest in digests:
            self._sight(id_, record, now)
            return PutResult(outcome=PutOutcome.DUPLICATE, id=id_)
        kept_rowid, kept = sqlite_last.kept(self, record.guard)
        ruling = None if record.guard is None else rule(record.guard, kept)
        if ruling is not None and ruling.suppressed:
            return PutResult(outcome=PutOutcome.SUPPRESSED, id=id_ or "")
        if before is not None:
            self.limits.admit(*before)
            self.room.admit()
        if id_ is None:
            id_ = self.stamped(record)
            digests = self.known(id_)
            if record.digest in digests:
                self._sight(id_, record, now)
                return PutResult(outcome=PutOutcome.DUPLICATE, id=id_)
        if record.guard is not None and ruling is not None:
            sqlite_last.keep(self, record.guard, kept_rowid, ruling.keep)
        label_id = self.labels.id_of(text(record.label)) if record.channel and not digests else None
        self.insert(id_, record, due_at=now, created_at=now, label_id=label_id)
        return PutResult(outcome=PutOutcome.CONFLICT if digests else PutOutcome.STORED, id=id_)

    def known(self, id_: str) -> list[bytes]:
        """Digests under which an id waits, was delivered or died."""
        return [digest for (digest,) in self.connection.execute(sql.KNOWN, (id_,)).fetchall()]

    def insert(
        self, id_: str, record: NewRecord, *, due_at: int, created_at: int, label_id: int | None = None
    ) -> int:
        """A row of the queue, last in the order of arrival; returns its rowid.

        The meter counts it by ``label_id``.
        """
        named = (id_, record.digest, text(record.channel), created_at, label_id)
        rowid = self.connection.execute(sql.INSERT_ID, named).lastrowid
        assert rowid is not None
        if record.blobs:
            sqlite_blobs.refer(self, rowid, record.blobs, due_at)
            due_at = PARKED
        self.connection.execute(sql.INSERT, (rowid, due_at, text(record.label), record.body))
        self.ledger.waiting += 1
        self.ledger.bytes += len(record.body)
        return rowid

    def stamped(self, record: NewRecord) -> str:
        """The record's id, by a stamp when it is made of one."""
        if isinstance(record.id, str):
            return record.id
        self.ledger.number += 1
        return record.id(Stamp(epoch=self.epoch, number=self.ledger.number))

    def _sight(self, id_: str, record: NewRecord, now: int) -> None:
        channel = text(record.channel)
        if not channel:
            return
        names = {"now": now, "id": id_, "digest": record.digest, "channel": channel}
        if self.connection.execute(sql.SIGHTING_AGAIN, names).rowcount:
            return
        (channels,) = self.connection.execute(sql.SIGHTING_CHANNELS, (id_, record.digest)).fetchone()
        if channels < SIGHTING_CHANNELS_MAX:
            self.connection.execute(sql.SIGHTING_NEW, (id_, record.digest, channel, now, now))

    def next_lease(self) -> int:
        self._lease += 1
        return self._lease

    # looking

    def get_meta(self, key: str) -> bytes | None:
        row = self.connection.execute(sql.META_READ, (text(key),)).fetchone()
        return None if row is None else bytes(typed(row, (bytes,))[0])

    def set_meta(self, key: str, value: bytes) -> None:
        self.connection.execute(sql.META_WRITE, (text(key), value))

    def use_reserve(self) -> bool:
        """Free the reserve's room and empty the log into it; False when it was free before."""
        if not self.room.give_reserve():
            return False
        with contextlib.suppress(sqlite3.Error):  # what is done next will tell
            self.room.checkpoint(self.connection)
        return True

    def checkpoint(self) -> bool:
        """Give free pages back to the disk, then shorten the log."""
        self.connection.executescript(sql.FREE_PAGES)
        return self.room.checkpoint(self.connection)
