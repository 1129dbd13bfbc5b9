"""One body becomes records of the outbox: identity or its maker, suppression, what guards want to know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from collector.labels import label_of
from contracts import translation
from contracts.events import OCCURRENCE, Event, Fold, Part
from contracts.identity import event_id, stamp_occurrence
from contracts.sanitize import clean_text
from contracts.scopes import Source
from contracts.translation import Arrival, Rules, fixed_id
from outbox.record import Guard, GuardMode, NewBlob, NewRecord, Stamp

NO_FILES: Final[Mapping[str, Path]] = {}
STATE_CHARS_MAX: Final = 50
STAMP_CHARS_MAX: Final = 100

_GUARD_MODES: Final = {
    Fold.SNAPSHOT: GuardMode.SNAPSHOT,
    Fold.TRANSITION: GuardMode.TRANSITION,
    Fold.CLEAR: GuardMode.CLEAR,
}


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """One fact as a record, with what the storm guard and the heartbeat want to know of it."""

    record: NewRecord
    source: Source
    scope: str
    kind: str
    state: str | None = None
    """Only for kind ``connection``."""
    stamp: str = ""
    """The gateway's own stamp of a connection fact, as text that sorts within one instance."""
    sameness: str | None = None
    """Equal for connection facts that differ in nothing but when they happened."""


Translation: TypeAlias = translation.Translation[Captured]


def translate(arrival: Arrival, rules: Rules, files: Mapping[str, Path] = NO_FILES) -> Translation:
    """The records of one body. What is no JSON, or what its reader fails on is one unknown.

    ``files`` hold what was cut out of it, by sha256. Raises PutBack when that has to stand in the body.
    """
    return translation.translate(arrival, rules, partial(_captured, files))


def _captured(
    files: Mapping[str, Path], arrival: Arrival, source: Source, scope: str, event: Event, body: bytes
) -> Captured:
    unstamped = event.needs_stamp and arrival.occurrence is None
    record = NewRecord(
        id=fixed_id(scope, event, arrival.occurrence) or partial(_stamped, scope, event.kind, event.parts),
        body=body,
        digest=event.digest or b"",
        channel=arrival.channel,
        label=label_of(source, event.kind),
        guard=_guard(scope, event) if unstamped else None,
        blobs=tuple(
            NewBlob(sha256=ref.sha256, bytes=ref.bytes, mime=ref.mime or "", path=files[ref.sha256])
            for ref in event.blobs
        ),
    )
    if event.kind != "connection":
        return Captured(record=record, source=source, scope=scope, kind=event.kind)
    told = event.parts[0] if event.parts and isinstance(event.parts[0], str) else None
    state = None if told is None else clean_text(told)[:STATE_CHARS_MAX]
    same = None if event.needs_stamp else json.dumps([p for p in event.parts if p is not OCCURRENCE])
    stamp = event.occurrence[:STAMP_CHARS_MAX] if isinstance(event.occurrence, str) else ""
    return Captured(
        record=record,
        source=source,
        scope=scope,
        kind=event.kind,
        state=state,
        stamp=stamp,
        sameness=same,
    )


def _stamped(scope: str, kind: str, parts: tuple[Part, ...], stamp: Stamp) -> str:
    return event_id(scope, kind, parts, stamp_occurrence(stamp.epoch, stamp.number))


def _guard(scope: str, event: Event) -> Guard | None:
    mode = _GUARD_MODES.get(event.fold)
    if mode is None or event.subject is None:
        return None
    return Guard(key=json.dumps([scope, event.kind, event.subject]), mode=mode, members=event.members)
