"""What a row of a damaged file may carry into the new one: it is repaired where that loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from outbox.sqlite_blob_statements import PARKED
from outbox.sqlite_damage import AT_US_MAX, Damaged, key_text, members_of
from outbox.sqlite_values import text

Repair: TypeAlias = "Callable[[Any, int], Any]"
"""Takes a value and the time now. Raises Damaged when the row is worth nothing without the value."""


def lenient(raw: bytes) -> str:
    """A text as it stands there; bytes that are none of it become lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def repaired(
    table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]], now: int
) -> Iterator[tuple[Any, ...]]:
    """The rows, but those that only a guess could repair: an id is what it was, or the row is lost."""
    repairs = [_REPAIRS.get(f"{table}.{column}") or _REPAIRS.get(column, _as_it_is) for column in columns]
    for row in rows:
        try:
            yield tuple([repair(value, now) for repair, value in zip(repairs, row, strict=True)])
        except Damaged:
            continue


def _as_it_is(value: object, _now: int) -> object:
    return value


def _name(value: object, _now: int) -> str:
    if isinstance(value, str) and text(value) == value:
        return value
    raise Damaged("a name is not what it was")


def _words(value: object, _now: int) -> str:
    """For people: a damaged letter is better than none."""
    if isinstance(value, bytes):
        value = lenient(value)
    return text(value) if isinstance(value, str) else ""


def _bytes(value: object, _now: int) -> bytes:
    """Whatever the file calls them, they are the same bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    raise Damaged("no bytes")


def _key(value: object, now: int) -> bytes:
    """What the storm was told apart by does not matter once it is over."""
    key = _bytes(value, now)
    try:
        key_text(key)
    except Damaged:
        return key.decode("utf-8", "replace").encode()
    return key


def _members(value: object, now: int) -> str:
    members_of(_name(value, now))
    return _name(value, now)


def _time(value: object, now: int) -> int:
    return value if isinstance(value, int) and 0 <= value <= AT_US_MAX else now


def _due(value: object, now: int) -> int:
    return PARKED if value == PARKED else _time(value, now)


def _time_or_none(value: object, now: int) -> int | None:
    return None if value is None else _time(value, now)


def _count(value: object, _now: int) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0


def _number_or_none(value: object, _now: int) -> int | None:
    return value if isinstance(value, int) else None


_REPAIRS: Final[Mapping[str, Repair]] = {
    "id": _name,
    "sha256": _name,
    "digest": _bytes,
    "body": _bytes,
    "last.key": _bytes,
    "held.key": _key,
    "meta.key": _name,
    "value": _bytes,
    "members": _members,
    "channel": _words,
    "label": _words,
    "reason": _words,
    "waits_because": _words,
    "mime": _words,
    "created_at": _time,
    "due_at": _due,
    "blobs.due_at": _time_or_none,
    "at": _time,
    "seen_at": _time_or_none,
    "died_at": _time_or_none,
    "first_at": _time,
    "last_at": _time,
    "attempts": _count,
    "count": _count,
    "times": _count,
    "status": _number_or_none,
}
