"""What stands for bytes that were cut out: in the decoded body for its reader, in payloads for the lake."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from contracts.base64text import Cut
from contracts.blobs import BlobRef, clean_mime, encode_ref
from contracts.cuttext import CutText
from contracts.gateways.blobplaces import blob_places

_MARK: Final = re.compile(rb'"(\$blob:[0-9a-f]{32}:[0-9]{12})"')


class PutBack(Exception):
    """The texts of these marks must stand in the body: not where gateways put bytes, or needed as text."""

    def __init__(self, cuts: Sequence[Cut]) -> None:
        super().__init__(f"{len(cuts)} texts")
        self.cuts = tuple(cuts)


def stand_in(body: object, family: str, cuts: Sequence[Cut]) -> dict[bytes, BlobRef]:
    """Put a `CutText` into the decoded body for each cut; return what stands for it in a payload, by mark.

    Raises PutBack with the cuts that are at no place where the family's gateways put bytes.
    """
    by_text = {cut.mark.decode("ascii"): cut for cut in cuts if cut.complete}
    refs: dict[bytes, BlobRef] = {}
    for holder, member, mime in blob_places(family, body):
        cut = by_text.get(str(holder[member]))
        if cut is not None:
            holder[member] = CutText(str(holder[member]), sha256=cut.sha256, bytes_total=cut.bytes_total)
            refs[cut.mark] = BlobRef(sha256=cut.sha256, bytes=cut.bytes_total, mime=clean_mime(mime))
    misplaced = [cut for cut in cuts if cut.mark not in refs]
    if misplaced:
        raise PutBack(misplaced)
    return refs


def with_refs(raw: bytes, refs: Mapping[bytes, BlobRef]) -> tuple[bytes, tuple[BlobRef, ...]]:
    """Return the bytes with each mark as its ref, and which refs that were."""
    found: dict[bytes, BlobRef] = {}

    def ref(match: re.Match[bytes]) -> bytes:
        known = refs.get(match[1])
        if known is None:
            return match[0]
        found[match[1]] = known
        return encode_ref(known)

    return _MARK.sub(ref, raw), tuple(found.values())
