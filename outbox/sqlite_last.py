"""What the SQLite store keeps of the last record of a guarded subject."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from outbox import sqlite_statements as sql
from outbox.guarding import Members
from outbox.record import Guard
from outbox.sqlite_damage import members_of
from outbox.sqlite_values import key_bytes

if TYPE_CHECKING:
    from outbox.sqlite_engine import SqliteEngine

_COMPACT: Final = (",", ":")


def kept(engine: SqliteEngine, guard: Guard | None) -> tuple[int | None, Members | None]:
    """The subject's row and members; None when nothing is known of it."""
    if guard is None:
        return None, None
    row = engine.connection.execute(sql.LAST_READ, (key_bytes(guard.key),)).fetchone()
    return (None, None) if row is None else (row[0], members_of(row[1]))


def keep(engine: SqliteEngine, guard: Guard, rowid: int | None, members: Members | None) -> None:
    """The members take the place of ``rowid``; None forgets the subject."""
    if rowid is not None:
        engine.connection.execute(sql.LAST_DELETE, (rowid,))
        engine.ledger.last -= 1
    if members is not None:
        as_hex = json.dumps({name: hash_.hex() for name, hash_ in members.items()}, separators=_COMPACT)
        engine.connection.execute(sql.LAST_INSERT, (key_bytes(guard.key), as_hex))
        engine.ledger.last += 1
