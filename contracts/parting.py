"""Parts a body into payloads and envelopes, byte for byte, without its secrets (contract §7). Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from contracts.cutting import cut, cut_members, may_hold_one
from contracts.events import Event, Path, Reading
from contracts.jsontext import slices_at, without

_UNREAD_CUTS: Final[tuple[Path, ...]] = (
    ("apikey",),
    ("api_key",),
    ("data", "qrcode"),
    ("data", "qr"),
    ("data", "pairingCode"),
    ("data", "appStateSyncKeyShare"),
)
"""Where gateways put secrets, for a body that its reader could not read."""

_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_KEY_IN_BROKEN_JSON: Final = re.compile(rb'("api_?key"\s*:\s*)"[^"]*"?')


class CutParts(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of one event, cut. ``redacted`` are JSON pointers that begin with /payload or /envelope."""

    payload: bytes
    envelope: bytes | None = None
    redacted: tuple[str, ...] = ()


class Cutter:
    """Cuts one body for all of its events; what they share is cut once."""

    def __init__(
        self, raw: bytes, reading: Reading, secrets: tuple[str, ...], events: Sequence[Event]
    ) -> None:
        self._raw, self._reading, self._all_secrets = raw, reading, secrets
        self._secrets = secrets if may_hold_one(raw, secrets) else ()
        paths = dict.fromkeys(
            path for event in events for path in (event.path, *event.context.values()) if path is not None
        )
        self._members = _members(raw)
        slices = slices_at(raw, tuple(paths), self._members) if paths else ()
        self._slices = dict(zip(paths, slices, strict=True))
        self._shared: tuple[bytes, tuple[str, ...]] | None = None

    def parts_of(self, event: Event) -> CutParts:
        """The event's payload and envelope. KeyError or IndexError when a reader's path leads nowhere."""
        secrets = self._secrets if event.payload is None else self._all_secrets
        payload, from_payload = cut(self._payload(event), self._payload_cuts(event), secrets)
        if event.context:
            envelope, from_envelope = self._own_envelope(event)
        elif self._reading.data_path:
            envelope, from_envelope = self._shared_envelope()
        else:
            return CutParts(payload=payload, redacted=tuple(_under("/payload", from_payload)))
        redacted = (*_under("/payload", from_payload), *_under("/envelope", from_envelope))
        return CutParts(payload=payload, envelope=envelope, redacted=redacted)

    def _payload(self, event: Event) -> bytes:
        if event.payload is not None:
            return event.payload
        return self._slices[event.path] if event.path is not None else b"null"

    def _payload_cuts(self, event: Event) -> tuple[Path, ...]:
        """The event's own secret places, and those of the body that lie inside the element."""
        if event.path is None or event.payload is not None:
            return event.cuts
        return (*event.cuts, *_inside(event.path, self._reading.cuts))

    def _shared_envelope(self) -> tuple[bytes, tuple[str, ...]]:
        if self._shared is None:
            self._shared = self._envelope_without(self._reading.data_path)
        return self._shared

    def _envelope_without(self, path: Path) -> tuple[bytes, tuple[str, ...]]:
        """The body without the member at ``path``; the usual case, a member of its own, without a scan."""
        if self._members is None or len(path) != 1:
            return cut(without(self._raw, path), self._reading.cuts, self._secrets)
        rest = {name: value for name, value in self._members.items() if name != path[0]}
        return cut_members(rest, self._reading.cuts, self._secrets)

    def _own_envelope(self, event: Event) -> tuple[bytes, tuple[str, ...]]:
        members = (
            json.dumps(name).encode("ascii") + b":" + self._slices[place]
            for name, place in event.context.items()
        )
        cuts = tuple(
            (name, *path)
            for name, place in event.context.items()
            for path in _inside(place, self._reading.cuts)
        )
        return cut(b"{" + b",".join(members) + b"}", cuts, self._secrets)


def unread_parts(raw: bytes, secrets: tuple[str, ...], cuts: tuple[Path, ...] = ()) -> CutParts:
    """A whole body that is JSON and that no reader could read; ``cuts`` are cut besides the usual places."""
    payload, redacted = cut(raw, (*_UNREAD_CUTS, *cuts), secrets)
    return CutParts(payload=payload, redacted=tuple(_under("/payload", redacted)))


def bytes_as_parts(raw: bytes, secrets: tuple[str, ...]) -> CutParts:
    """``{"$bytes": …}`` for what is no JSON, without what looks like a key or equals a secret."""
    clean = _KEY_IN_BROKEN_JSON.sub(rb"\1null", raw)
    for secret in secrets:
        clean = clean.replace(secret.encode(), b"")
    payload = b'{"$bytes":"' + base64.b64encode(clean) + b'"}'
    return CutParts(payload=payload, redacted=() if clean == raw else ("/payload/$bytes",))


def _members(raw: bytes) -> dict[str, msgspec.Raw] | None:
    """The body's own members; None where only a scan can tell them apart."""
    try:
        return _decode_members(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _inside(place: Path, cuts: tuple[Path, ...]) -> Iterator[Path]:
    depth = len(place)
    return (path[depth:] for path in cuts if len(path) > depth and path[:depth] == place)


def _under(root: str, pointers: Sequence[str]) -> Iterator[str]:
    return (root + pointer for pointer in pointers)
