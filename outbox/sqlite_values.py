"""Values as the SQLite store holds them: the ledger, texts, keys and lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from outbox.sqlite_damage import as_us
from outbox.store import REASON_CHARS_MAX, Settlement

_COMPACT: Final = (",", ":")


@dataclass(slots=True, kw_only=True)
class Ledger:
    """The file's counter and depths; written in the transaction that changes them."""

    number: int = 0
    waiting: int = 0
    bytes: int = 0
    dead: int = 0
    seen: int = 0
    last: int = 0
    held: int = 0
    blobs: int = 0
    """Rows of blobs, whatever their state: without any, nothing looks for them."""

    def values(self) -> tuple[int, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))


def text(value: str, chars_max: int | None = None) -> str:
    """What SQLite can hold of a text for people: it cannot bind a lone surrogate."""
    return value[:chars_max].encode("utf-8", "replace").decode()


def key_bytes(key: str) -> bytes:
    """A key, told apart also from keys that differ only in lone surrogates."""
    return key.encode("utf-8", "surrogatepass")


def as_json(values: Sequence[object]) -> str:
    return json.dumps(values, separators=_COMPACT)


def died(settled: Settlement) -> dict[str, Any]:
    """The names of a statement that makes a row a dead one."""
    reason = text(settled.reason, REASON_CHARS_MAX)
    return {"now": as_us(settled.now), "status": settled.status, "reason": reason, "rowid": settled.rowid}


def retried(settled: Settlement) -> dict[str, Any]:
    """The names of a statement that gives a row another time."""
    return {
        "due_at": as_us(settled.due_at or settled.now),
        "spent": int(settled.spent),
        "status": settled.status,
        "reason": text(settled.reason, REASON_CHARS_MAX),
        "rowid": settled.rowid,
    }
