"""The small numbers that stand for the labels in an SQLite store's file."""

from __future__ import annotations

import sqlite3

from outbox import sqlite_metering_statements as sql
from outbox.metering import LABELS_MAX


class Labels:
    """Remembers the numbers of one connection; what a transaction made is forgotten with it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[str, int] = {}

    def id_of(self, label: str) -> int | None:
        """The label's number, made when it is new; None when there are too many."""
        known = self._known.get(label)
        if known is None:
            row = self._connection.execute(sql.LABEL_READ, (label,)).fetchone()
            names = {"label": label, "labels_max": LABELS_MAX}
            row = row or self._connection.execute(sql.LABEL_INSERT, names).fetchone()
            if row is None:
                return None
            known = self._known[label] = int(row[0])
        return known

    def forget(self) -> None:
        """After a rollback: some may never have been."""
        self._known.clear()
