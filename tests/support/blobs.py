"""Requests for blobs as the contract has them, signed with any secret."""

from __future__ import annotations

import hashlib
from typing import Final

from contracts.blob_upload import PartRange, signed_text
from contracts.blobs import blob_event_id
from contracts.signing import sign

MIME: Final = "image/jpeg"


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def headers_for(
    secret: bytes, sha256: str, content_range: str, part: bytes, *, method: str = "PUT", mime: str = MIME
) -> dict[str, str]:
    """The headers of one request."""
    event_id = blob_event_id(sha256)
    part_sha256 = sha256_of(part) if method == "PUT" else ""
    signature = sign(secret, event_id, signed_text(method, sha256, content_range, mime, part_sha256))
    headers = {"X-Event-Id": event_id, "X-Signature": signature, "Content-Type": mime}
    return headers | ({"Content-Range": content_range} if content_range else {})


def part_of(content: bytes, first: int, size: int) -> tuple[str, bytes]:
    """The header and the bytes of a part."""
    body = content[first : first + size]
    return str(PartRange(first=first, size=len(body), total=len(content))), body
