"""The few values that every operation of the SQLite store relies on, looked at when the file is opened."""

from __future__ import annotations

import contextlib
import sqlite3
from functools import cache

from outbox import sqlite_metering_statements as metering
from outbox import sqlite_salvage_statements as salvage
from outbox import sqlite_statements as sql
from outbox.sqlite_blob_statements import PARKED
from outbox.sqlite_damage import Damaged, typed


def assert_whole(connection: sqlite3.Connection) -> None:
    """Raises Damaged. Its cost does not grow with the rows."""
    if not _our_shape() <= _shape(connection):
        raise Damaged("the outbox file is damaged: its schema is another")
    typed(connection.execute(sql.LEDGER_READ).fetchone(), (str, int, int, int, int, int, int, int, int))
    typed(connection.execute(metering.METER_READ).fetchone(), (int, int, int))
    for table, due_beyond in salvage.DUE_BEYOND.items():
        if connection.execute(due_beyond, (PARKED,)).fetchone()[0]:
            raise Damaged(f"the outbox file is damaged: a time in {table} is none")


def _shape(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    return set(connection.execute(salvage.SHAPE).fetchall())


@cache
def _our_shape() -> set[tuple[str, str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in sql.SCHEMA:
            connection.execute(statement)
        return _shape(connection)
