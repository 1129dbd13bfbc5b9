"""How a blob travels: parts of one ``PUT`` each, signed with their place, and what the backend says to them.

``Content-Range: bytes 0-8388607/20000000`` brings a part, ``bytes */20000000`` with no body only asks how
much is there. Both are answered by a `BlobReceipt`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, Self

import msgspec

from contracts.blobs import BLOB_PATH

PART_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of one part; a backend takes no larger one."""
RANGE_HEADER: Final = "Content-Range"
OFFSET_HEADER: Final = "Upload-Offset"
"""On every answer to a blob that is not complete: how many bytes the backend has."""
PROBLEM_WRONG_HASH: Final = "urn:zaplake:problem:wrong-hash"
"""The bytes are not those of the sha256 in the path."""

_RANGE: Final = re.compile(r"bytes (?:(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})|\*)/([1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRange:
    """The place of a part in a blob of ``total`` bytes; ``size`` 0 only asks."""

    first: int
    size: int
    total: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The range of a header; None for what is none."""
        match = _RANGE.fullmatch(text)
        if match is None:
            return None
        total = int(match[3])
        if match[1] is None:
            return cls(first=0, size=0, total=total)
        first, last = int(match[1]), int(match[2])
        return cls(first=first, size=last - first + 1, total=total) if first <= last < total else None

    def __str__(self) -> str:
        """As the header spells it."""
        if not self.size:
            return f"bytes */{self.total}"
        return f"bytes {self.first}-{self.first + self.size - 1}/{self.total}"


class BlobReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a part, or to the question: 201 stored, 200 duplicate, 202 partial."""

    status: Literal["stored", "duplicate", "partial"]
    event_id: str
    sha256: str
    offset: int | None = None
    """Of a partial blob: bytes that are there; the next part begins here."""


def blob_path(sha256: str) -> str:
    """Where this blob is put."""
    return f"{BLOB_PATH}/{sha256}"


def signed_text(method: str, sha256: str, content_range: str, content_type: str, part_sha256: str) -> bytes:
    """What the signature of a request for a blob is made over, after the event id and a dot.

    Method, blob, place, type and the part's own hash: who has no secret can neither store nor cut short nor
    replace. ``content_range`` and ``part_sha256`` are empty for a HEAD; every text is as the header has it.
    """
    return "\n".join((method, sha256, content_range, content_type, part_sha256)).encode("latin-1", "replace")
