"""A collector without I/O: one scope, UNIQUE ids, stamps and suppression as contract §4 says them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from contracts.cutting import cut
from contracts.events import Event, Fold, Reading
from contracts.identity import event_id, stamp_occurrence
from contracts.jsontext import decode, slice_at, without

Read: TypeAlias = Callable[[object], Reading]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the lake, as far as these tests look at it."""

    id: str
    event: Event
    payload: bytes
    envelope: bytes | None
    redacted: tuple[str, ...]

    @property
    def kind(self) -> str:
        return self.event.kind


@dataclass(slots=True, kw_only=True)
class Collector:
    """Feed it bodies; ``rows`` are what the lake would hold."""

    read: Read
    scope: str = "gateway/x"
    rows: dict[str, Row] = field(default_factory=dict)
    skipped: list[Event] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    last: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    number: int = 0

    def feed(self, raw: bytes) -> list[str]:
        """Capture one body; return the ids of its events that are not suppressed, in order."""
        reading = self.read(decode(raw))
        for reason, count in reading.counted:
            self.counted[reason] = self.counted.get(reason, 0) + count
        return [row_id for event in reading.events if (row_id := self._keep(raw, reading, event)) is not None]

    def feed_all(self, bodies: Iterable[bytes]) -> list[list[str]]:
        """Capture bodies in order."""
        return [self.feed(raw) for raw in bodies]

    def kinds(self) -> list[str]:
        """The kinds of all rows, in order of capture."""
        return [row.kind for row in self.rows.values()]

    def _keep(self, raw: bytes, reading: Reading, event: Event) -> str | None:
        occurrence = event.occurrence
        if event.needs_stamp:
            self.number += 1
            occurrence = stamp_occurrence("e" * 8, self.number)
        row_id = event_id(self.scope, event.kind, event.parts, occurrence)
        if row_id in self.rows:
            return row_id
        if self._equal_to_last(event):
            self.skipped.append(event)
            return None
        payload, redacted = _payload(raw, event)
        self.rows[row_id] = Row(
            id=row_id, event=event, payload=payload, envelope=_envelope(raw, reading), redacted=redacted
        )
        return row_id

    def _equal_to_last(self, event: Event) -> bool:
        if event.fold is Fold.NONE:
            return False
        assert event.subject is not None
        key = (event.kind, event.subject)
        kept = self.last.get(key)
        if event.fold is Fold.CLEAR:
            self.last.pop(key, None)
            return False
        if kept is not None and all(kept.get(name) == value for name, value in event.members.items()):
            return True
        self.last[key] = (
            dict(event.members) if event.fold is Fold.TRANSITION else {**(kept or {}), **event.members}
        )
        return False


def _payload(raw: bytes, event: Event) -> tuple[bytes, tuple[str, ...]]:
    if event.path is None:
        assert event.payload is not None
        return event.payload, ()
    return cut(slice_at(raw, event.path), event.cuts)


def _envelope(raw: bytes, reading: Reading) -> bytes | None:
    if not reading.data_path:
        return None
    around, _ = cut(without(raw, reading.data_path), reading.cuts)
    return around
