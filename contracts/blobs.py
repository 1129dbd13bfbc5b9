"""What stands in a payload for bytes that were cut out of it: ``{"$blob": {"sha256", "bytes", "mime"}}``.

A gateway may write such an object itself: it stays as it was, byte for byte, and means nothing. Which blobs
an event really has is said by the wire's own member ``blobs`` alone, a list of the same objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from contracts.blobref import SHA256_PATTERN, BlobRef
from contracts.identity import blob_event_id

__all__ = [
    "BLOB_MEMBER",
    "BLOB_PATH",
    "LOST_CHARS_MAX",
    "MIME_CHARS_MAX",
    "REFS_MAX",
    "SHA256_PATTERN",
    "BlobHolder",
    "BlobRef",
    "blob_event_id",
    "clean_mime",
    "encode_ref",
    "find_refs",
    "is_sha256",
    "mark_lost",
    "ref_of",
]

BLOB_MEMBER: Final = "$blob"
BLOB_PATH: Final = "/api/blobs"
"""Where a backend takes a blob: ``PUT /api/blobs/{sha256}``."""
REFS_MAX: Final = 10_000
"""Refs looked at in one body; a door cuts fewer out of one."""
MIME_CHARS_MAX: Final = 200
LOST_CHARS_MAX: Final = 200

_SHA256: Final = re.compile(SHA256_PATTERN)
_MIME: Final = re.compile(r"[!#-\[\]-~](?:[ !#-\[\]-~]{0,198}[!#-\[\]-~])?")
"""Printable ASCII that JSON writes without an escape; no space at an end, which no header may have."""
_NOT_PLAIN: Final = re.compile(r"[^ !#-\[\]-~]")
_OPENING: Final = b'{"$blob":{'
_REF: Final = re.compile(
    rb'\{"\$blob":\{"sha256":"([0-9a-f]{64})","bytes":(?:0|[1-9][0-9]{0,17}),"mime":'
    rb'(?:null|"[ !#-\[\]-~]{1,200}")(?:,"lost":"[ !#-\[\]-~]{1,200}")?\}\}'
)
"""A ref as `encode_ref` spells it, or did when a mime type might end in a space. Where it matches in JSON it
is one: a quote inside a text is escaped."""


class BlobHolder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The object in a payload, and an item of the wire's ``blobs``."""

    ref: BlobRef = msgspec.field(name=BLOB_MEMBER)


def encode_ref(ref: BlobRef) -> bytes:
    """Return the one spelling of a ref: no spaces, ``mime`` also when null, ``lost`` only when it is said.

    A mime type that `clean_mime` refuses becomes null; a reason is cut to 200 characters of it.
    """
    fields: dict[str, object] = {"sha256": ref.sha256, "bytes": ref.bytes, "mime": clean_mime(ref.mime)}
    if ref.lost is not None:
        fields["lost"] = _NOT_PLAIN.sub("?", ref.lost)[:LOST_CHARS_MAX] or "unknown"
    return _encode({BLOB_MEMBER: fields})


def clean_mime(value: object) -> str | None:
    """Return a gateway's mime type, which can be sent as a header; None for what is none.

    None: no text, too long, no printable ASCII, or a space at an end.
    """
    return value if isinstance(value, str) and _MIME.fullmatch(value) else None


def is_sha256(text: str) -> bool:
    """True for 64 lower-case hex digits, the only spelling of a blob's name."""
    return _SHA256.match(text) is not None


def ref_of(value: object) -> BlobRef | None:
    """Return the ref that a decoded JSON value is, None for anything else; the order of members is free."""
    try:
        return msgspec.convert(value, BlobHolder).ref
    except (msgspec.ValidationError, RecursionError, UnicodeError):
        return None


def find_refs(raw: bytes) -> Iterator[BlobRef]:
    """Yield the refs in JSON bytes as `encode_ref` spells them, in order, at most ``REFS_MAX``.

    Also what a gateway wrote in just this spelling: not to be believed without the wire's ``blobs``.
    Nearly free for bytes without any.
    """
    if _OPENING not in raw:
        return
    for count, match in enumerate(_REF.finditer(raw)):
        if count == REFS_MAX:
            return
        yield _decode(match[0]).ref


def mark_lost(raw: bytes, sha256: str, reason: str) -> bytes:
    """Return the JSON bytes with ``lost`` in every ref to this blob; every other byte stays."""

    def marked(match: re.Match[bytes]) -> bytes:
        if match[1] != wanted:
            return match[0]
        return encode_ref(msgspec.structs.replace(_decode(match[0]).ref, lost=reason))

    wanted = sha256.encode()
    return _REF.sub(marked, raw) if _OPENING in raw and wanted in raw else raw


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(BlobHolder).decode
