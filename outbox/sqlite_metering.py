"""The SQLite store's meter: counts in the transaction that remembers how far it came."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from outbox import sqlite_metering_statements as sql
from outbox.metering import CELLS_KEPT, DELAY_BUCKETS, Cell, Seen, Sweep, cells_of, hour_of
from outbox.sqlite_damage import Damaged, as_us, from_us, listed, typed, typed_rows
from outbox.sqlite_engine import SqliteEngine
from outbox.sqlite_values import as_json

_SEEN: Final = (int, str, int, str, int)
_CELL: Final = (str, int, str, int, int, str)


def sweep(engine: SqliteEngine, before: datetime, limit: int) -> Sweep:
    """A time ahead of the clock is a mistake of the clock's, and holds nothing up."""
    connection = engine.connection
    through, swept_at, cells = connection.execute(sql.METER_READ).fetchone()
    until, now = as_us(before), as_us(engine.clock.now())
    due: list[tuple[int, int]] = []
    rows = connection.execute(sql.SWEEP, (through, limit)).fetchall()
    for rowid, created_at in typed_rows(rows, (int, int)):
        if until < created_at <= now:
            break
        due.append((rowid, created_at))
    if not due:
        return Sweep(looked=0, counted=())
    counted = cells_of(_seen(engine, due[0][0], due[-1][0]))
    cells += sum(_add(engine, cell) for cell in counted)
    newest = max(swept_at, *(created_at for _, created_at in due if created_at <= now), 0)
    connection.execute(sql.METER_WRITE, (due[-1][0], newest, cells))
    return Sweep(looked=len(due), counted=tuple(counted))


def _seen(engine: SqliteEngine, first: int, last: int) -> list[Seen]:
    records: dict[int, Seen] = {}
    rows = engine.connection.execute(sql.CHANNELS, {"first": first, "last": last})
    for rowid, label, created_at, channel, first_at in typed_rows(rows.fetchall(), _SEEN):
        record = records.get(rowid)
        if record is None:
            record = records[rowid] = Seen(label=label, first_at=from_us(created_at), channels={})
        if channel:
            at = from_us(first_at)
            record.channels[channel] = min(at, record.channels.get(channel, at))
    return list(records.values())


def _add(engine: SqliteEngine, cell: Cell) -> bool:
    """True when the cell is new."""
    place = (cell.label, as_us(cell.hour), as_json(cell.channels))
    row = engine.connection.execute(sql.CELL_READ, place).fetchone()
    if row is not None:
        cell = cell.plus(_cell((*place, *row)))
    names = {
        "label": cell.label,
        "hour": as_us(cell.hour),
        "channels": as_json(cell.channels),
        "count": cell.count,
        "delay_ms_max": cell.delay_ms_max,
        "delays": as_json(cell.delays),
    }
    engine.connection.execute(sql.CELL_WRITE, names)
    return row is None


def untold(engine: SqliteEngine, limit: int) -> list[Cell]:
    return [_cell(row) for row in engine.connection.execute(sql.UNTOLD, (limit,)).fetchall()]


def told(engine: SqliteEngine, cells: Sequence[Cell], kept_max: int) -> int:
    connection = engine.connection
    for cell in cells:
        names = {"label": cell.label, "hour": as_us(cell.hour), "channels": as_json(cell.channels)}
        connection.execute(sql.TOLD, {**names, "count": cell.count})
    through, swept_at, kept = connection.execute(sql.METER_READ).fetchone()
    before = as_us(hour_of(from_us(swept_at)) - CELLS_KEPT)
    forgotten = connection.execute(sql.FORGET_TOLD, (before,)).rowcount
    excess = kept - forgotten - kept_max
    if excess > 0:
        forgotten += connection.execute(sql.FORGET_OLDEST, (excess,)).rowcount
    connection.execute(sql.METER_WRITE, (through, swept_at, kept - forgotten))
    return forgotten


def _cell(row: tuple[Any, ...]) -> Cell:
    label, hour, channels, count, delay_ms_max, delays = typed(row, _CELL)
    counts = listed(delays, int)
    if len(counts) not in (0, DELAY_BUCKETS):
        raise Damaged("the outbox file is damaged: delays are none")
    return Cell(
        label=label,
        hour=from_us(hour),
        channels=listed(channels, str),
        count=count,
        delay_ms_max=delay_ms_max,
        delays=counts,
    )
