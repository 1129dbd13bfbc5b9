"""Inside a WhatsApp message: what counts as content, what the wrappers hold, where secrets lie."""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Mapping
from typing import Final

from contracts.binary import field_bytes
from contracts.blobref import BlobRef
from contracts.cuttext import CutText
from contracts.events import Path
from contracts.gateways.shape import mapping, member_at, word
from contracts.wrappers import wrapped

NOT_CONTENT: Final = frozenset({"senderKeyDistributionMessage", "messageContextInfo"})
"""A text that could not be decrypted comes with these beside its stub: they are no content."""
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

_SECRET_WRAPPERS_MAX: Final = 500
"""Secrets are looked for in more wrappers than anybody nests."""
PAIRING_SECRETS: Final = ("qr", "qrcode", "pairingCode")
_ELEMENT_SECRETS: Final = (*PAIRING_SECRETS, "apikey", "api_key")
_ELEMENT_SECRET_NAMES: Final = frozenset(_ELEMENT_SECRETS)
_SECRETS: Final[tuple[Path, ...]] = (("appStateSyncKeyShare",), ("historySyncNotification", "mediaKey"))


def has_content(message: object, *, beside_stub: bool = False) -> bool:
    """True when the member ``message`` holds anything but what comes beside a stub.

    ``beside_stub``: the element has a stub, so members written out as null are not content either.
    """
    if isinstance(message, dict):
        return any(
            name not in NOT_CONTENT and not (beside_stub and member is None)
            for name, member in message.items()
        )
    return message not in (None, "", [])


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
    said = [member for member, value in protocol.items() if value is not None]
    return "REVOKE" if word(mapping(protocol.get("key")).get("id")) and said == ["key"] else "UNKNOWN"


def protocol_secrets(protocol: object) -> tuple[Path, ...]:
    """Return where keys of the account lie in a protocol message: app-state keys, history media keys."""
    if not isinstance(protocol, dict):
        return ()
    return tuple(path for path in _SECRETS if member_at(protocol, path) is not None)


def element_secrets(element: object) -> tuple[Path, ...]:
    """Return where an element of the gateway holds what lets anyone in: QR and pairing codes, its own key."""
    body = mapping(element)
    if _ELEMENT_SECRET_NAMES.isdisjoint(body):
        return ()
    return tuple((name,) for name in _ELEMENT_SECRETS if body.get(name) is not None)


def message_secrets(message: object) -> tuple[Path, ...]:
    """Return where keys of the account lie in a member ``message``, in any wrapper; never user content."""
    found: list[Path] = []
    waiting: list[tuple[Mapping[str, object], Path]] = [(mapping(message), ())]
    for inner, path in waiting:
        here = (*path, "protocolMessage")
        found += ((*here, *secret) for secret in protocol_secrets(inner.get("protocolMessage")))
        if len(waiting) < _SECRET_WRAPPERS_MAX:
            waiting += ((content, (*path, name, "message")) for name, content in wrapped(inner))
    return tuple(found)


def blob_facts(text: str) -> tuple[str | None, int | None]:
    """Return hex sha256 and count of the bytes that a gateway put into a body; None twice for no base64."""
    if isinstance(text, CutText):
        return text.sha256, text.bytes_total
    data = _decode_base64(text)
    return (None, None) if data is None else (hashlib.sha256(data).hexdigest(), len(data))


def cut_blobs(text: str) -> tuple[BlobRef, ...]:
    """Return what is known of the text's bytes if they were cut out of the body."""
    if isinstance(text, CutText):
        return (BlobRef(sha256=text.sha256, bytes=text.bytes_total),)
    return ()


def _decode_base64(text: str) -> bytes | None:
    """Return the bytes of base64, plain or as a data URL, whatever its padding and line breaks; else None."""
    body = text.rpartition(";base64,")[2]
    try:
        return binascii.a2b_base64(body, strict_mode=True) or None
    except ValueError:
        return field_bytes("".join(body.split())) or None
