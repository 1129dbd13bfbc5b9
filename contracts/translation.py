"""One body becomes facts: reader, scope, identity, cut, envelope. Pure, and nothing that arrives is lost.

The identity is computed first, from the decoded body and the scope alone; secrets are cut afterwards, from
the bytes as received. What a fact is kept in is its door's business: each gives the function that makes it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from contracts.base64text import Cut
from contracts.blobref import BlobRef
from contracts.configured import CapturePolicy, GatewayConfig
from contracts.envelope import TYPE_CHARS_MAX, Channel, encode_event, wrap_payload
from contracts.events import OCCURRENCE, Event, Path, Reading
from contracts.gateways import READERS
from contracts.identity import event_id
from contracts.jsontext import NotJson, decode
from contracts.parting import CutParts, Cutter, bytes_as_parts, unread_parts
from contracts.policy import refusal
from contracts.sanitize import clean_text
from contracts.scopes import Source
from contracts.standing import PutBack, stand_in, with_refs
from contracts.times import rfc3339

INSTANCE_CHARS_MAX: Final = 200

Counts: TypeAlias = defaultdict[Source, Counter[str]]
"""What became of the events of one body, by the instance that each is of."""

Kept = TypeVar("Kept")
"""What a door keeps a fact in."""
_Kept_co = TypeVar("_Kept_co", covariant=True)


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """One body at a door. ``raw`` is what the gateway wrote, after Content-Encoding."""

    raw: bytes
    gateway: GatewayConfig
    path_instance: str | None
    channel: Channel
    captured_at: datetime
    occurrence: tuple[str | int, ...] | None = None
    """Stands in for the collector's stamp where each body has a fixed place (a file's line)."""
    cuts: tuple[Cut, ...] = ()
    """What marks in ``raw`` stand for."""


class Keep(Protocol[_Kept_co]):
    """Makes what a door keeps a fact in; ``body`` is the fact as it travels to the backend."""

    def __call__(
        self, arrival: Arrival, source: Source, scope: str, event: Event, body: bytes, /
    ) -> _Kept_co: ...


class Translation(msgspec.Struct, Generic[Kept], frozen=True, kw_only=True):
    """All of one body."""

    source: Source
    captured: tuple[Kept, ...] = ()
    counted: Counts
    """What made no record, and oddities, by name."""
    refused: tuple[tuple[Source, str], ...] = ()
    """Instance and kind of each fact that the policy left out: it was heard all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What every translation of one process has in common."""

    policy: CapturePolicy
    scope_of: Callable[[Source], str]
    secrets: tuple[str, ...]


def translate(arrival: Arrival, rules: Rules, keep: Keep[Kept]) -> Translation[Kept]:
    """The facts of one body. What is no JSON, or what its reader fails on is one unknown.

    Raises PutBack when texts that were cut out are needed: ids, digests and members of suppression are the
    same whether or not a body was cut.
    """
    try:
        body = decode(arrival.raw)
    except NotJson as error:
        _refuse_cuts(arrival)
        reason = f"not JSON: {error}"[:200]
        return _one_unknown(
            arrival, rules, keep, bytes_as_parts(arrival.raw, rules.secrets), "not_json", reason
        )
    refs = stand_in(body, arrival.gateway.family, arrival.cuts) if arrival.cuts else {}
    try:
        reading = READERS[arrival.gateway.family](body, path_instance=arrival.path_instance)
        if urls := _urls_with_secrets(body, rules.secrets):
            reading = replace(reading, cuts=(*reading.cuts, *urls))
        return _facts(arrival, rules, keep, reading, refs)
    except Exception as error:
        _refuse_cuts(arrival)
        # A reader's fault must not lose what it could not read.
        parts = unread_parts(arrival.raw, rules.secrets, _urls_with_secrets(body, rules.secrets))
        reason = f"reader failed: {type(error).__name__}"
        return _one_unknown(arrival, rules, keep, parts, _wire_name(body), reason)


def source_of(arrival: Arrival, named: str | None) -> Source:
    """Gateway and native instance: the body's word, else the path's, else "".

    A name that is too long, or that no heartbeat and no column could hold, is told by its hash.
    """
    instance = named if named is not None else arrival.path_instance or ""
    if len(instance) > INSTANCE_CHARS_MAX or clean_text(instance) != instance:
        instance = "sha256:" + hashlib.sha256(instance.encode("utf-8", "surrogatepass")).hexdigest()
    return arrival.gateway.name, instance


def fixed_id(scope: str, event: Event, place: tuple[str | int, ...] | None) -> str | None:
    """The event's id, with ``place`` where it has no stamp of its own; None when only a door can stamp it."""
    if not event.needs_stamp:
        return event_id(scope, event.kind, event.parts, event.occurrence)
    return None if place is None else event_id(scope, event.kind, event.parts, place)


def _refuse_cuts(arrival: Arrival) -> None:
    if arrival.cuts:
        raise PutBack(arrival.cuts) from None


def _facts(
    arrival: Arrival, rules: Rules, keep: Keep[Kept], reading: Reading, refs: Mapping[bytes, BlobRef]
) -> Translation[Kept]:
    source = source_of(arrival, reading.instance)
    counted: Counts = defaultdict(Counter)
    for reason, count in reading.counted:
        counted[source][reason] += count
    if reading.instance is not None and arrival.path_instance not in {None, reading.instance}:
        counted[source]["path_mismatch"] += 1
    wanted: list[tuple[Event, Source]] = []
    left_out: list[tuple[Source, str]] = []
    for event in reading.events:
        of_event = source if event.instance is None else source_of(arrival, event.instance)
        refused = refusal(rules.policy, event, f"{of_event[0]}/{of_event[1]}")
        if refused is None:
            wanted.append((event, of_event))
        else:
            counted[of_event][refused] += 1
            left_out.append((of_event, event.kind))
    if not wanted:
        return Translation(source=source, counted=counted, refused=tuple(left_out))
    cutter = Cutter(arrival.raw, reading, rules.secrets, [event for event, _ in wanted])
    captured = tuple(
        _captured(
            arrival, keep, of_event, rules.scope_of(of_event), event, cutter.parts_of(event), None, refs
        )
        for event, of_event in wanted
    )
    return Translation(source=source, captured=captured, counted=counted, refused=tuple(left_out))


def _captured(
    arrival: Arrival,
    keep: Keep[Kept],
    source: Source,
    scope: str,
    event: Event,
    cut_parts: CutParts,
    reader_error: str | None,
    refs: Mapping[bytes, BlobRef],
) -> Kept:
    gateway, instance = source
    blobs: tuple[BlobRef, ...] = ()
    if refs:
        cut_parts, blobs = _with_refs(event, cut_parts, refs)
        event = replace(event, blobs=blobs)
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
        blobs=blobs,
    )
    return keep(arrival, source, scope, event, body)


def _with_refs(
    event: Event, parts: CutParts, refs: Mapping[bytes, BlobRef]
) -> tuple[CutParts, tuple[BlobRef, ...]]:
    """The parts with refs for marks, and each blob once that they hold or that the event is about."""
    payload, inside = with_refs(parts.payload, refs)
    envelope, beside = (None, ()) if parts.envelope is None else with_refs(parts.envelope, refs)
    wanted = {ref.sha256 for ref in event.blobs}
    own = [ref for ref in refs.values() if ref.sha256 in wanted] if wanted else ()
    blobs = {ref.sha256: ref for ref in (*own, *beside, *inside)}
    return replace(parts, payload=payload, envelope=envelope), tuple(blobs.values())


def _one_unknown(
    arrival: Arrival, rules: Rules, keep: Keep[Kept], parts: CutParts, name: str, reason: str
) -> Translation[Kept]:
    source = source_of(arrival, None)
    fingerprint = hashlib.sha256(arrival.raw).hexdigest()
    event = Event(kind="unknown", type=name, chat_jid=None, parts=(name, fingerprint, OCCURRENCE))
    captured = _captured(arrival, keep, source, rules.scope_of(source), event, parts, reason, {})
    counted: Counts = defaultdict(Counter, {source: Counter({"reader_error": 1})})
    return Translation(source=source, captured=(captured,), counted=counted)


def _urls_with_secrets(body: object, secrets: tuple[str, ...]) -> tuple[Path, ...]:
    """Evolution repeats in each body the URL that it posts to; a secret may be a segment of its path."""
    url = body.get("destination") if isinstance(body, dict) else None
    if not isinstance(url, str):
        return ()
    spelled = (url, unquote(url)) if "%" in url else (url,)
    return (("destination",),) if any(secret in text for secret in secrets for text in spelled) else ()


def _wire_name(body: object) -> str:
    name = body.get("event") if isinstance(body, dict) else None
    return name[:TYPE_CHARS_MAX] if isinstance(name, str) and name else "unknown"
