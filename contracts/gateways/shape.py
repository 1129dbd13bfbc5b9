"""Members of arbitrary JSON, read without ever raising: what has another shape than expected is absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from contracts.events import Path

_NOTHING: Final[Mapping[str, object]] = {}
_INTEGER_MAX: Final = 1 << 64
"""Ids written as numbers beyond it are no ids: Python refuses to spell very long integers."""


def mapping(value: object) -> Mapping[str, object]:
    """Return the object, or an empty one for anything else."""
    return value if isinstance(value, dict) else _NOTHING


def word(value: object) -> str | None:
    """Return an id, code or name as a string; None for an empty or absent one and for containers."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < _INTEGER_MAX else None
    return None


def first_word(*values: object) -> str | None:
    """Return the first of the values that is a word."""
    return next((found for found in map(word, values) if found is not None), None)


def jid(*values: object) -> str | None:
    """Return the first value that is an address (has an ``@``); a gateway's own database ids have none."""
    return next((value for value in values if isinstance(value, str) and "@" in value), None)


def member_at(value: object, path: Path) -> object:
    """Return what lies at a path of member names; null where one of them is not there."""
    for name in path:
        value = mapping(value).get(str(name))
    return value


def items(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Yield the elements of an array with their paths; anything else is one element."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield (*path, index), item
    else:
        yield path, value
