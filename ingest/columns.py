"""Rows turned into the parameters of the one insert. Pure, and measured: it runs for every event."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from ingest.row import Row

_ARRAY_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"'})


def columns_of(rows: Sequence[Row]) -> list[Any]:
    """The insert's parameters. A column without any value is one NULL: unnest fills it up for less.

    Columns of text travel as one literal each: the driver asks every item of an array what it is, twice.
    """
    columns: list[Any] = [
        None if column[0] is None and column.count(None) == len(rows) else column
        for column in islice(zip(*rows, strict=True), _PARAMETERS)
    ]
    for place in _ARRAY_COLUMNS:
        if columns[place] is not None:
            columns[place] = [None if value is None else _literal(value) for value in columns[place]]
    for place in _LITERAL_COLUMNS:
        if columns[place] is not None:
            columns[place] = _literal(columns[place])
    return columns


def _literal(items: Sequence[str | None]) -> str:
    """The text form of an array of text; unnest would flatten arrays of arrays."""
    texts = [item for item in items if item is not None]
    if len(texts) == len(items):
        plain = '","'.join(texts)
        if items and "\\" not in plain and plain.count('"') == 2 * (len(items) - 1):
            return '{"' + plain + '"}'
    return "{" + ",".join("NULL" if item is None else _quoted(item) for item in items) + "}"


def _quoted(item: str) -> str:
    return '"' + item.translate(_ARRAY_ESCAPES) + '"'


_PARAMETERS: Final = Row._fields.index("blobs")
_ARRAY_COLUMNS: Final = tuple(Row._fields.index(name) for name in ("flags", "sanitized", "redacted"))
_LITERAL_COLUMNS: Final = tuple(
    Row._fields.index(name)
    for name in (
        "event_id",
        "type",
        "chat_jid",
        "gateway",
        "instance",
        "scope",
        "channel",
        "kind",
        "occurred_from",
        "flags",
        "reader_error",
        "sanitized",
        "redacted",
        "collector",
    )
)
