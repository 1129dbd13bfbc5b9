"""The wrappers that WhatsApp puts around a message, opened in one order; the file's own hash inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from contracts.binary import field_bytes, object_bytes
from contracts.events import Path

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


def unwrap(message: object) -> tuple[Mapping[str, object], Path]:
    """Open the wrappers of a member ``message``, at most 8; return the innermost message and its path there.

    What is no object holds nothing: an empty one.
    """
    inner: Mapping[str, object] = message if isinstance(message, dict) else {}
    path: Path = ()
    for _ in range(UNWRAP_MAX):
        name, content = next(wrapped(inner), ("", None))
        if content is None:
            break
        inner, path = content, (*path, name, "message")
    return inner, path


def wrapped(message: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the wrappers that a message has as members with what they hold, in a fixed order."""
    if _WRAPPER_NAMES.isdisjoint(message):
        return
    for name in sorted(message.keys() & _WRAPPER_NAMES, key=WRAPPERS.index):
        wrapper = message[name]
        content = wrapper.get("message") if isinstance(wrapper, dict) else None
        if isinstance(content, dict):
            yield name, content


def file_sha256(inner: Mapping[str, object]) -> bytes | None:
    """Return an unwrapped message's own fileSha256, however it is written: base64, Buffer, index map."""
    for name in sorted(inner):
        part = inner[name]
        value = part.get("fileSha256") if isinstance(part, dict) else None
        found = object_bytes(value) if isinstance(value, dict) else field_bytes(value)
        if found:
            return found
    return None
