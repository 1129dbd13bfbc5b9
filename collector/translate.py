"""One body becomes records: reader, scope, identity, cut, envelope. Pure, and nothing that arrives is lost.

The identity is computed first, from the decoded body and the scope alone; secrets are cut afterwards, from
the bytes as received.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

import msgspec

from collector.config import CapturePolicy, GatewayConfig
from collector.parting import CutParts, Cutter, bytes_as_parts, unread_parts
from collector.policy import refusal
from collector.scopes import Source
from contracts.envelope import TYPE_CHARS_MAX, Channel, encode_event, wrap_payload
from contracts.events import OCCURRENCE, Event, Fold, Part, Reading
from contracts.gateways import READERS
from contracts.identity import event_id, stamp_occurrence
from contracts.jsontext import NotJson, decode
from contracts.sanitize import clean_text
from contracts.times import rfc3339
from outbox.record import Guard, GuardMode, MakeId, NewRecord, Stamp

INSTANCE_CHARS_MAX: Final = 200
STATE_CHARS_MAX: Final = 50
STAMP_CHARS_MAX: Final = 100

Counts: TypeAlias = defaultdict[Source, Counter[str]]
"""What became of the events of one body, by the instance that each is of."""

_GUARD_MODES: Final = {
    Fold.SNAPSHOT: GuardMode.SNAPSHOT,
    Fold.TRANSITION: GuardMode.TRANSITION,
    Fold.CLEAR: GuardMode.CLEAR,
}


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """One body at a door. ``raw`` is what the gateway wrote, after Content-Encoding."""

    raw: bytes
    gateway: GatewayConfig
    path_instance: str | None
    channel: Channel
    captured_at: datetime
    occurrence: tuple[str | int, ...] | None = None
    """Stands in for the collector's stamp where each body has a fixed place (a file's line)."""


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


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """All of one body."""

    source: Source
    captured: tuple[Captured, ...] = ()
    counted: Counts
    """What made no record, and oddities, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What every translation of one collector has in common."""

    policy: CapturePolicy
    scope_of: Callable[[Source], str]
    secrets: tuple[str, ...]


def translate(arrival: Arrival, rules: Rules) -> Translation:
    """The records of one body. What is no JSON, or what its reader fails on is one unknown."""
    try:
        body = decode(arrival.raw)
    except NotJson as error:
        reason = f"not JSON: {error}"[:200]
        return _one_unknown(arrival, rules, bytes_as_parts(arrival.raw, rules.secrets), "not_json", reason)
    try:
        reading = READERS[arrival.gateway.family](body, path_instance=arrival.path_instance)
        return _facts(arrival, rules, reading)
    except Exception as error:
        # A reader's fault must not lose what it could not read.
        parts = unread_parts(arrival.raw, rules.secrets)
        return _one_unknown(arrival, rules, parts, _wire_name(body), f"reader failed: {type(error).__name__}")


def source_of(arrival: Arrival, named: str | None) -> Source:
    """Gateway and native instance: the body's word, else the path's, else "".

    A name that is too long, or that no heartbeat and no column could hold, is told by its hash.
    """
    instance = named if named is not None else arrival.path_instance or ""
    if len(instance) > INSTANCE_CHARS_MAX or clean_text(instance) != instance:
        instance = "sha256:" + hashlib.sha256(instance.encode("utf-8", "surrogatepass")).hexdigest()
    return arrival.gateway.name, instance


def _facts(arrival: Arrival, rules: Rules, reading: Reading) -> Translation:
    source = source_of(arrival, reading.instance)
    counted: Counts = defaultdict(Counter)
    for reason, count in reading.counted:
        counted[source][reason] += count
    if reading.instance is not None and arrival.path_instance not in {None, reading.instance}:
        counted[source]["path_mismatch"] += 1
    wanted: list[tuple[Event, Source]] = []
    for event in reading.events:
        of_event = source if event.instance is None else source_of(arrival, event.instance)
        refused = refusal(rules.policy, event, f"{of_event[0]}/{of_event[1]}")
        if refused is None:
            wanted.append((event, of_event))
        else:
            counted[of_event][refused] += 1
    if not wanted:
        return Translation(source=source, counted=counted)
    cutter = Cutter(arrival.raw, reading, rules.secrets, [event for event, _ in wanted])
    captured = tuple(
        _captured(arrival, of_event, rules.scope_of(of_event), event, cutter.parts_of(event), None)
        for event, of_event in wanted
    )
    return Translation(source=source, captured=captured, counted=counted)


def _captured(
    arrival: Arrival, source: Source, scope: str, event: Event, cut_parts: CutParts, reader_error: str | None
) -> Captured:
    gateway, instance = source
    body = encode_event(
        type=event.type[:TYPE_CHARS_MAX],
        chat_jid=event.chat_jid,
        payload=wrap_payload(cut_parts.payload),
        envelope=cut_parts.envelope,
        instance=instance,
        gateway=gateway,
        scope=scope,
        channel=arrival.channel,
        kind=event.kind,
        occurred_at=rfc3339(event.occurred_at or arrival.captured_at),
        occurred_from=event.occurred_from or "collector",
        captured_at=rfc3339(arrival.captured_at),
        digest=event.digest.hex() if event.digest is not None else None,
        flags=event.flags,
        reader_error=reader_error,
        redacted=cut_parts.redacted,
    )
    unstamped = event.needs_stamp and arrival.occurrence is None
    record = NewRecord(
        id=_identity(scope, event, arrival.occurrence),
        body=body,
        digest=event.digest or b"",
        channel=arrival.channel,
        label=f"{gateway}/{instance} {event.kind}",
        guard=_guard(scope, event) if unstamped else None,
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


def _identity(scope: str, event: Event, place: tuple[str | int, ...] | None) -> str | MakeId:
    if not event.needs_stamp:
        return event_id(scope, event.kind, event.parts, event.occurrence)
    if place is not None:
        return event_id(scope, event.kind, event.parts, place)
    return partial(_stamped, scope, event.kind, event.parts)


def _stamped(scope: str, kind: str, parts: tuple[Part, ...], stamp: Stamp) -> str:
    return event_id(scope, kind, parts, stamp_occurrence(stamp.epoch, stamp.number))


def _guard(scope: str, event: Event) -> Guard | None:
    mode = _GUARD_MODES.get(event.fold)
    if mode is None or event.subject is None:
        return None
    return Guard(key=json.dumps([scope, event.kind, event.subject]), mode=mode, members=event.members)


def _one_unknown(arrival: Arrival, rules: Rules, parts: CutParts, name: str, reason: str) -> Translation:
    source = source_of(arrival, None)
    fingerprint = hashlib.sha256(arrival.raw).hexdigest()
    event = Event(kind="unknown", type=name, chat_jid=None, parts=(name, fingerprint, OCCURRENCE))
    captured = _captured(arrival, source, rules.scope_of(source), event, parts, reason)
    counted: Counts = defaultdict(Counter, {source: Counter({"reader_error": 1})})
    return Translation(source=source, captured=(captured,), counted=counted)


def _wire_name(body: object) -> str:
    name = body.get("event") if isinstance(body, dict) else None
    return name[:TYPE_CHARS_MAX] if isinstance(name, str) and name else "unknown"
