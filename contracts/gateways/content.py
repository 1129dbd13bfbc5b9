"""Inside a WhatsApp message: what counts as content, what the wrappers hold, where secrets lie."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Final

from contracts.events import Path
from contracts.gateways.shape import mapping, word

NOT_CONTENT: Final = frozenset({"senderKeyDistributionMessage", "messageContextInfo"})
"""A text that could not be decrypted comes with these beside its stub: they are no content."""
WRAPPERS: Final = (
    "ephemeralMessage",
    "viewOnceMessage",
    "viewOnceMessageV2",
    "viewOnceMessageV2Extension",
    "documentWithCaptionMessage",
    "editedMessage",
    "deviceSentMessage",
    "groupMentionedMessage",
    "botInvokeMessage",
    "botForwardedMessage",
    "associatedChildMessage",
    "groupStatusMessage",
    "groupStatusMessageV2",
    "groupStatusMentionMessage",
    "statusMentionMessage",
    "lottieStickerMessage",
    "eventCoverImage",
    "limitSharingMessage",
)
DEPTH_MAX: Final = 8
"""How many wrappers are opened; deeper ones are content like any other."""

PROTOCOL_TYPES: Final[Mapping[int, str]] = {
    0: "REVOKE",
    3: "EPHEMERAL_SETTING",
    4: "EPHEMERAL_SYNC_RESPONSE",
    5: "HISTORY_SYNC_NOTIFICATION",
    6: "APP_STATE_SYNC_KEY_SHARE",
    7: "APP_STATE_SYNC_KEY_REQUEST",
    8: "MSG_FANOUT_BACKFILL_REQUEST",
    9: "INITIAL_SECURITY_NOTIFICATION_SETTING_SYNC",
    10: "APP_STATE_FATAL_EXCEPTION_NOTIFICATION",
    11: "SHARE_PHONE_NUMBER",
    14: "MESSAGE_EDIT",
    16: "PEER_DATA_OPERATION_REQUEST_MESSAGE",
    17: "PEER_DATA_OPERATION_REQUEST_RESPONSE_MESSAGE",
    18: "REQUEST_WELCOME_MESSAGE",
    19: "BOT_FEEDBACK_MESSAGE",
    20: "MEDIA_NOTIFY_MESSAGE",
    21: "CLOUD_API_THREAD_CONTROL_NOTIFICATION",
    22: "LID_MIGRATION_MAPPING_SYNC",
    23: "REMINDER_MESSAGE",
    24: "BOT_MEMU_ONBOARDING_MESSAGE",
    25: "STATUS_MENTION_MESSAGE",
    26: "STOP_GENERATION_MESSAGE",
    27: "LIMIT_SHARING",
    28: "AI_PSI_METADATA",
    29: "AI_QUERY_FANOUT",
    30: "GROUP_MEMBER_LABEL_CHANGE",
}
"""WAProto's ``ProtocolMessage.Type``."""
_PROTOCOL_NUMBERS: Final = {str(number): name for number, name in PROTOCOL_TYPES.items()}

_SECRETS: Final[tuple[Path, ...]] = (("appStateSyncKeyShare",), ("historySyncNotification", "mediaKey"))


def has_content(message: object) -> bool:
    """True when the member ``message`` holds anything but what comes beside a stub."""
    if isinstance(message, dict):
        return any(name not in NOT_CONTENT for name in message)
    return message not in (None, "", [])


def unwrap(message: object) -> tuple[Mapping[str, object], Path]:
    """Open the wrappers; return the innermost message and its path in ``message``."""
    inner, path = mapping(message), ()
    for _ in range(DEPTH_MAX):
        name = next(
            (name for name in WRAPPERS if isinstance(mapping(inner.get(name)).get("message"), dict)), None
        )
        if name is None:
            break
        inner, path = mapping(mapping(inner[name])["message"]), (*path, name, "message")
    return inner, path


def protocol_type(protocol: Mapping[str, object]) -> str:
    """Return the name of a protocol message's type, given as number, digits or name.

    Without a type (proto's default is 0) it is an edit when it holds new content, a revoke when it only
    names a target.
    """
    name = word(protocol.get("type"))
    if name is not None:
        return _PROTOCOL_NUMBERS.get(name, name.upper())
    if isinstance(protocol.get("editedMessage"), dict):
        return "MESSAGE_EDIT"
    return "REVOKE" if word(mapping(protocol.get("key")).get("id")) and len(protocol) == 1 else "UNKNOWN"


def protocol_secrets(protocol: object) -> tuple[Path, ...]:
    """Return where keys of the account lie in a protocol message: app-state keys, history media keys."""
    found = []
    for path in _SECRETS:
        holder = protocol
        for name in path[:-1]:
            holder = mapping(holder).get(str(name))
        if mapping(holder).get(str(path[-1])) is not None:
            found.append(path)
    return tuple(found)


def message_secrets(message: object) -> tuple[Path, ...]:
    """Return where keys of the account lie in a member ``message``, at any wrapper; never user content."""
    found: list[Path] = []
    inner, path = mapping(message), ()
    for _ in range(DEPTH_MAX + 1):
        here = (*path, "protocolMessage")
        found += [(*here, *secret) for secret in protocol_secrets(inner.get("protocolMessage"))]
        name = next(
            (name for name in WRAPPERS if isinstance(mapping(inner.get(name)).get("message"), dict)), None
        )
        if name is None:
            break
        inner, path = mapping(mapping(inner[name])["message"]), (*path, name, "message")
    return tuple(found)


def file_sha256(message: object) -> bytes | None:
    """Return the message's own fileSha256 in whatever form it is written: base64, Buffer, index map."""
    inner, _ = unwrap(message)
    for name in sorted(inner):
        found = read_bytes(mapping(inner[name]).get("fileSha256"))
        if found:
            return found
    return None


def read_bytes(value: object) -> bytes | None:
    """Return bytes given as base64, Buffer, index map or array of numbers; None for anything else."""
    if isinstance(value, str):
        return decode_base64(value)
    if isinstance(value, dict):
        if value.get("type") == "Buffer":
            return read_bytes(value.get("data"))
        value = [value.get(str(index)) for index in range(len(value))]
    if not isinstance(value, list) or not value:
        return None
    if not all(type(item) is int and 0 <= item <= 255 for item in value):
        return None
    return bytes(value)


def decode_base64(text: str) -> bytes | None:
    """Return the bytes of plain or data-URL base64, with or without padding; None when it is none."""
    _, _, body = text.rpartition(";base64,")
    body = body.strip().rstrip("=")
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4), validate=True) or None
    except (binascii.Error, ValueError):
        return None


def sha256_hex(data: bytes) -> str:
    """Return the lower-case hex SHA-256."""
    return hashlib.sha256(data).hexdigest()
