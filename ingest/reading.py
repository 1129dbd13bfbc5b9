"""Turns a received body into a row, or says what is wrong with it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from contracts.blobs import BlobHolder
from contracts.envelope import TYPE_CHARS_MAX
from contracts.jsontext import NotJson, decode, slices_at
from contracts.sanitize import sanitize, valid_needs_repair
from ingest.problems import BAD_EVENT_ID, NOT_JSON, WRONG_SHAPE, ProblemError
from ingest.row import Row

SHARDS: Final = 64
"""The lake's log is read by this many cursors; never change it (rows keep their shard)."""

_Time = Annotated[datetime, msgspec.Meta(tz=True)]
_EVENT_ID: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ABOUT_MESSAGES: Final = ("message", "reaction", "poll.")
_OBJECT, _ARRAY = ord("{"), ord("[")
_Model = TypeVar("_Model")


class Incoming(msgspec.Struct, gc=False):
    """``contracts.envelope.WireEvent`` as the backend takes it: only type and payload must be there."""

    type: str
    payload: Raw
    chat_jid: str | None = None
    event_id: str | None = None
    instance: str | None = None
    gateway: str | None = None
    scope: str | None = None
    channel: str | None = None
    kind: str | None = None
    occurred_at: _Time | None = None
    occurred_from: str | None = None
    captured_at: _Time | None = None
    digest: str | None = None
    flags: tuple[str, ...] | None = None
    reader_error: str | None = None
    redacted: tuple[str, ...] | None = None
    envelope: Raw | UnsetType = UNSET
    blobs: tuple[BlobHolder, ...] | None = None


class _Key(msgspec.Struct, gc=False):
    id: str | None = None


class _AboutMessage(msgspec.Struct, gc=False, rename="camel"):
    key: _Key | None = None
    key_id: str | None = None
    id: Raw | UnsetType = UNSET


_decode_incoming = msgspec.json.Decoder(Incoming).decode
_decode_about = msgspec.json.Decoder(_AboutMessage).decode


def is_event_id(text: str) -> bool:
    """Whether ``text`` is a lower-case, hyphenated UUID."""
    return _EVENT_ID.fullmatch(text) is not None


def read_event(body: bytes, *, event_id: str | None, collector: str | None) -> Row:
    """The row of one body; a batch line names its own id (``event_id`` None). Raises ProblemError."""
    try:
        incoming = _decode_incoming(body)
        is_fit = not valid_needs_repair(body)
    except (msgspec.MsgspecError, RecursionError):
        return _read_repaired(body, event_id, collector)
    if not is_fit:
        return _read_repaired(body, event_id, collector)
    return _row(incoming, event_id, collector, None)


def _row(
    incoming: Incoming, event_id: str | None, collector: str | None, sanitized: tuple[str, ...] | None
) -> Row:
    if event_id is None:
        event_id = (incoming.event_id or "").lower()
        if not is_event_id(event_id):
            raise ProblemError(BAD_EVENT_ID, "event_id of the line is missing or no UUID.")
    if not 0 < len(incoming.type) <= TYPE_CHARS_MAX:
        raise ProblemError(WRONG_SHAPE, f"type must have 1 to {TYPE_CHARS_MAX} characters.")
    payload = incoming.payload
    if memoryview(payload)[0] not in (_OBJECT, _ARRAY):
        raise ProblemError(WRONG_SHAPE, "payload must be an object or an array.")
    envelope = incoming.envelope
    return Row(
        event_id,
        None if incoming.digest is None else _digest(incoming.digest),
        incoming.type,
        incoming.chat_jid,
        payload,
        _shard(payload, incoming.kind, incoming.scope, incoming.chat_jid),
        incoming.gateway,
        incoming.instance,
        incoming.scope,
        incoming.channel,
        incoming.kind,
        incoming.occurred_at,
        incoming.occurred_from,
        incoming.captured_at,
        incoming.flags or None,
        incoming.reader_error,
        None if envelope is UNSET or bytes(envelope) == b"null" else envelope,
        sanitized,
        incoming.redacted or None,
        collector,
        None if incoming.blobs is None else tuple(holder.ref for holder in incoming.blobs) or None,
    )


def _digest(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 16:
        raise ProblemError(WRONG_SHAPE, "digest must be the hex of 16 bytes.")
    return digest


def _shard(payload: Raw, kind: str | None, scope: str | None, chat_jid: str | None) -> int:
    """By scope and message id for facts about a message, by scope and chat else."""
    subject = chat_jid
    try:
        about = _decode_about(payload)
    except (msgspec.DecodeError, RecursionError):
        pass
    else:
        subject = (about.key.id if about.key is not None else None) or about.key_id
        if subject is None and about.id is not UNSET and (kind or "").startswith(_ABOUT_MESSAGES):
            subject = _plain_id(bytes(about.id))
        subject = subject or chat_jid
    name = f"{scope or ''}\0{subject or ''}".encode("utf-8", "surrogatepass")
    return blake2b(name, digest_size=1).digest()[0] % SHARDS


def _plain_id(raw: bytes) -> str | None:
    """The message id of a member ``id``: Cloud's wamid as it is, or the third part of WAHA's."""
    if not raw.startswith(b'"'):
        return None
    text = raw[1:-1].decode(errors="replace")
    parts = text.split("_")
    return parts[2] if len(parts) > 2 and parts[0] in ("true", "false") else text


def _read_repaired(body: bytes, event_id: str | None, collector: str | None) -> Row:
    """The long way for what a strict decoder or jsonb would not take (contract §6)."""
    try:
        decoded = decode(body)
    except NotJson as error:
        raise ProblemError(NOT_JSON, f"At byte {error.position}: {error.reason}.") from None
    if not isinstance(decoded, Mapping):
        raise ProblemError(WRONG_SHAPE, "The body must be an object.")
    paths: list[str] = []
    members: dict[str, object] = {}
    names = [name for name in Incoming.__struct_fields__ if name in decoded]
    for name, raw in zip(names, slices_at(body, [(name,) for name in names]), strict=True):
        clean = sanitize(raw)
        paths += [f"/{name}{path}" for path in clean.paths]
        members[name] = Raw(clean.json.encode())
    try:
        incoming = _decode_incoming(msgspec.json.encode(members))
    except msgspec.ValidationError as error:
        raise ProblemError(WRONG_SHAPE, _without_content(str(error))) from None
    return _row(incoming, event_id, collector, tuple(paths) or None)


def _without_content(message: str) -> str:
    """msgspec's message names types and a place, and in a few cases the value; the value is dropped."""
    return message.split("'")[0].strip() if "Invalid" in message else message
