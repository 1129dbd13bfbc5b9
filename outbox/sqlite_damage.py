"""What a file's own columns cannot hold is damage: SQLite checks a value when it is written, never again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from outbox.store import StoreCorrupt

Type: TypeAlias = "type | tuple[type, ...]"

AT_US_MAX: Final = 2**57
"""The year 6536. No honest time lies beyond."""
OPTIONAL_INT: Final = (int, type(None))

_EPOCH_ORIGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Damaged(StoreCorrupt):
    """The file is ours and cannot be used; what it still holds can be salvaged."""


def as_us(at: datetime) -> int:
    """Microseconds since 1970 of an aware time."""
    return (at - _EPOCH_ORIGIN) // _MICROSECOND


def from_us(us: int) -> datetime:
    """The aware UTC time of microseconds since 1970, as a column has them. Raises Damaged."""
    if not (isinstance(us, int) and 0 <= us <= AT_US_MAX):
        raise Damaged("the outbox file is damaged: a time is none")
    return _EPOCH_ORIGIN + us * _MICROSECOND


def typed(row: tuple[Any, ...] | None, types: tuple[Type, ...]) -> tuple[Any, ...]:
    """The row, of which there must be one, with a value of each type. Raises Damaged."""
    if row is None:
        raise Damaged("the outbox file is damaged: a row is missing")
    if not all(map(isinstance, row, types)):
        raise Damaged("the outbox file is damaged: a value is of another type than its column")
    return row


def typed_rows(rows: Iterable[tuple[Any, ...]], types: tuple[Type, ...]) -> Iterator[tuple[Any, ...]]:
    """The rows, each ``typed`` when its turn comes."""
    return (typed(row, types) for row in rows)


def listed(value: str, type_: type) -> tuple[Any, ...]:
    """The values of a JSON array, all of one type. Raises Damaged."""
    values = _loaded(value)
    if not (isinstance(values, list) and all(isinstance(each, type_) for each in values)):
        raise Damaged("the outbox file is damaged: a list is none")
    return tuple(values)


def key_text(key: bytes) -> str:
    """The key that ``key_bytes`` made bytes of. Raises Damaged."""
    try:
        return key.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Damaged("the outbox file is damaged: a key is none") from error


def members_of(value: str) -> dict[str, bytes]:
    """What a guarded subject keeps: JSON of {name: hex}. Raises Damaged."""
    values = _loaded(value)
    try:
        if isinstance(values, dict):
            return {name: bytes.fromhex(hash_) for name, hash_ in values.items()}
    except (TypeError, ValueError) as error:
        raise Damaged("the outbox file is damaged: a member is none") from error
    raise Damaged("the outbox file is damaged: members are none")


def _loaded(value: str) -> object:
    try:
        return json.loads(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Damaged("the outbox file is damaged: a text is no JSON") from error
