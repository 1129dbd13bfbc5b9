"""The wire between collector and backend (contract §1-§3): one event, one batch line, one receipt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from contracts.blobs import BlobRef, encode_ref
from contracts.sanitize import clean_text

TYPE_CHARS_MAX: Final = 100
CHAT_JID_CHARS_MAX: Final = 255
UNKNOWN_TYPE: Final = "unknown"
BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a backend takes as one body unless it is told otherwise."""
WRAP_BYTES_MAX: Final = 2 * 1024 * 1024
"""What an event is larger than the gateway's body that it came in, at most: the wire's own members."""

EVENT_ID_HEADER: Final = "X-Event-Id"
SIGNATURE_HEADER: Final = "X-Signature"
COLLECTOR_HEADER: Final = "X-Collector"
EVENT_PATH: Final = "/api/webhooks/whatsapp"
BATCH_PATH: Final = "/api/webhooks/whatsapp/batch"
BATCH_CONTENT_TYPE: Final = "application/x-ndjson"

PROBLEM_NOT_JSON: Final = "urn:zaplake:problem:not-json"
PROBLEM_BAD_EVENT_ID: Final = "urn:zaplake:problem:bad-event-id"
PROBLEM_UNSIGNED: Final = "urn:zaplake:problem:unsigned"
PROBLEM_TOO_LARGE: Final = "urn:zaplake:problem:body-too-large"
"""A 413 of this type is ours; any other 413 is a proxy's, and the record stays."""
PROBLEM_ENCODING: Final = "urn:zaplake:problem:unknown-content-encoding"
PROBLEM_WRONG_SHAPE: Final = "urn:zaplake:problem:wrong-shape"
PROBLEM_RATE_LIMITED: Final = "urn:zaplake:problem:rate-limited"
PROBLEM_UNAVAILABLE: Final = "urn:zaplake:problem:unavailable"

Channel: TypeAlias = Literal["webhook", "rabbitmq", "jsonl", "direct", "refill"]
OccurredFrom: TypeAlias = Literal["message", "gateway", "collector"]
ReceiptStatus: TypeAlias = Literal["stored", "duplicate", "rejected"]


class WireEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of one event; a batch line has its ``event_id`` too. Only the first three are required.

    ``payload`` and ``envelope`` hold the JSON bytes as the gateway sent them. Times are RFC 3339 with a
    zone; ``digest`` is the hex of 16 bytes; ``redacted`` are JSON pointers into payload or envelope.
    """

    event_id: str | None = None
    type: str
    chat_jid: str | None
    payload: Raw
    instance: str | None = None
    gateway: str | None = None
    scope: str | None = None
    channel: str | None = None
    kind: str | None = None
    occurred_at: str | None = None
    occurred_from: str | None = None
    captured_at: str | None = None
    digest: str | None = None
    flags: tuple[str, ...] = ()
    reader_error: str | None = None
    redacted: tuple[str, ...] = ()
    envelope: Raw | UnsetType = UNSET
    blobs: tuple[Raw, ...] = ()
    """The refs among the payload's that are the sender's own, spelled as there."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one event. ``code`` is the status a single post of a rejected line would get."""

    event_id: str
    status: ReceiptStatus
    code: int | None = None
    detail: str | None = None


_encode = msgspec.json.Encoder().encode
_VALUE_START: Final = re.compile(rb"[ \t\n\r]*+([\[{]?)")


def encode_event(
    *,
    type: str,  # noqa: A002 the wire's own name
    chat_jid: str | None,
    payload: bytes,
    envelope: bytes | None = None,
    event_id: str | None = None,
    instance: str | None = None,
    gateway: str | None = None,
    scope: str | None = None,
    channel: Channel | None = None,
    kind: str | None = None,
    occurred_at: str | None = None,
    occurred_from: OccurredFrom | None = None,
    captured_at: str | None = None,
    digest: str | None = None,
    flags: tuple[str, ...] = (),
    reader_error: str | None = None,
    redacted: tuple[str, ...] = (),
    blobs: Sequence[BlobRef] = (),
) -> bytes:
    """Build the body of one event; ``payload`` (object or array) and ``envelope`` are copied as bytes.

    ``type`` and ``chat_jid`` are cut to what the backend takes, an empty type is ``unknown``; NUL goes and
    what has no UTF-8 becomes U+FFFD.
    """
    event = WireEvent(
        event_id=event_id,
        type=clean_text(type)[:TYPE_CHARS_MAX] or UNKNOWN_TYPE,
        chat_jid=None if chat_jid is None else clean_text(chat_jid)[:CHAT_JID_CHARS_MAX],
        payload=Raw(payload),
        instance=_clean_or_none(instance),
        gateway=_clean_or_none(gateway),
        scope=_clean_or_none(scope),
        channel=channel,
        kind=kind,
        occurred_at=occurred_at,
        occurred_from=occurred_from,
        captured_at=captured_at,
        digest=digest,
        flags=flags,
        reader_error=_clean_or_none(reader_error),
        redacted=tuple(map(clean_text, redacted)),
        envelope=UNSET if envelope is None else Raw(envelope),
        blobs=tuple(Raw(encode_ref(ref)) for ref in blobs),
    )
    return _encode(event)


def wrap_payload(raw: bytes) -> bytes:
    """Return an object or array as it is, and any other JSON value as ``{"value": …}``, byte for byte."""
    if raw[:1] == b"{":
        return raw
    start = _VALUE_START.match(raw)
    return raw if start is not None and start[1] else b'{"value":' + raw + b"}"


def _clean_or_none(text: str | None) -> str | None:
    return None if text is None else clean_text(text)
