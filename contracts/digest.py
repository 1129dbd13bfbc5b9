"""What a message says, in 16 bytes: a second copy with another digest still tells something (contract §4)."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping
from typing import Final

from contracts.canonical import canonical, canonical_json
from contracts.compact import compact_json
from contracts.wrappers import file_sha256, unwrap

DIGEST_BYTES: Final = 16


def content_digest(message: object) -> bytes:
    """Return 16 bytes of the sha256 of [text or caption (NFC), fileSha256] of the unwrapped message.

    ``message`` is the member of that name. The file's hash stands as lower-case hex; what is missing is null.
    A message with neither is digested in its canonical form.
    """
    inner, _ = unwrap(message)
    said, file_hash = _text(inner), file_sha256(inner)
    if said is None and file_hash is None:
        whole = inner if isinstance(message, dict) else message
        form = canonical_json(canonical("message", {"message": whole}))
    else:
        form = compact_json([said, None if file_hash is None else file_hash.hex()])
    return hashlib.sha256(form).digest()[:DIGEST_BYTES]


def _text(message: Mapping[str, object]) -> str | None:
    plain = message.get("conversation")
    if isinstance(plain, str) and plain:
        return unicodedata.normalize("NFC", plain)
    said: list[object] = []
    for name in sorted(message):
        part = message[name]
        if isinstance(part, dict):
            said.append(part.get("text") if name == "extendedTextMessage" else part.get("caption"))
    return next((unicodedata.normalize("NFC", text) for text in said if isinstance(text, str) and text), None)
