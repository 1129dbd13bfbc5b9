"""What a message says, in 16 bytes: a second copy with another digest still tells something (contract §4)."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping
from typing import Final

from contracts.binary import field_bytes, object_bytes
from contracts.canonical import canonical, canonical_json
from contracts.compact import compact_json

DIGEST_BYTES: Final = 16
UNWRAP_MAX: Final = 8
"""Wrappers opened; what is deeper is content like any other."""

WRAPPERS: Final = (
    "ephemeralMessage",
    "viewOnceMessage",
    "viewOnceMessageV2",
    "viewOnceMessageV2Extension",
    "documentWithCaptionMessage",
    "editedMessage",
    "deviceSentMessage",
    "associatedChildMessage",
    "botForwardedMessage",
    "botInvokeMessage",
    "botTaskMessage",
    "eventCoverImage",
    "groupMentionedMessage",
    "groupStatusMentionMessage",
    "groupStatusMessage",
    "groupStatusMessageV2",
    "limitSharingMessage",
    "lottieStickerMessage",
    "newsletterAdminProfileMessage",
    "newsletterAdminProfileMessageV2",
    "pollCreationMessageV4",
    "pollCreationOptionImageMessage",
    "questionMessage",
    "questionReplyMessage",
    "spoilerMessage",
    "statusAddYours",
    "statusMentionMessage",
)
"""WAProto's FutureProofMessage members of Message, and the sender's own copy (deviceSentMessage)."""
_WRAPPER_NAMES: Final = frozenset(WRAPPERS)


def content_digest(message: object) -> bytes:
    """Return 16 bytes of the sha256 of [text or caption (NFC), fileSha256] of the unwrapped message.

    ``message`` is the member of that name. The file's hash stands as lower-case hex; what is missing is null.
    A message with neither is digested in its canonical form.
    """
    inner = unwrap_message(message)
    said = None if inner is None else _text(inner)
    file_sha256 = None if inner is None else _file_sha256(inner)
    if said is None and file_sha256 is None:
        form = canonical_json(canonical("message", {"message": message if inner is None else inner}))
    else:
        form = compact_json([said, file_sha256])
    return hashlib.sha256(form).digest()[:DIGEST_BYTES]


def unwrap_message(message: object) -> Mapping[str, object] | None:
    """Open the wrappers of a member ``message``, at most 8; None when it is no object."""
    inner: Mapping[str, object] | None = message if isinstance(message, dict) else None
    for _ in range(UNWRAP_MAX):
        content = None if inner is None else _wrapped(inner)
        if content is None:
            break
        inner = content
    return inner


def _wrapped(message: Mapping[str, object]) -> Mapping[str, object] | None:
    if _WRAPPER_NAMES.isdisjoint(message):
        return None
    for name in sorted(message.keys() & _WRAPPER_NAMES, key=WRAPPERS.index):
        wrapper = message[name]
        content = wrapper.get("message") if isinstance(wrapper, dict) else None
        if isinstance(content, dict):
            return content
    return None


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


def _file_sha256(message: Mapping[str, object]) -> str | None:
    for name in sorted(message):
        part = message[name]
        value = part.get("fileSha256") if isinstance(part, dict) else None
        data = object_bytes(value) if isinstance(value, dict) else field_bytes(value)
        if data:
            return data.hex()
    return None
