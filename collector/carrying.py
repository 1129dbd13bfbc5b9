"""Records of the outbox as JSON objects, to be carried to another collector; what comes back is checked."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from contracts.blobs import REFS_MAX, is_sha256
from outbox.history import blob_members, history_members
from outbox.kept import KeptRecord, KeptState
from outbox.record import NewBlob

STATES: Final[tuple[KeptState, ...]] = ("waiting", "dead")
PAGE_RECORDS_MAX: Final = 500
PAGE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of bodies; a larger body is a page of its own."""
TEXT_CHARS_MAX: Final = 2_000
DIGEST_BYTES_MAX: Final = 32
YEAR_MIN: Final = 1971

_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class NoRecord(ValueError):
    """The object is none that was exported; the message says which member is wrong."""


def record_document(record: KeptRecord) -> dict[str, object]:
    """A record as JSON; the body as text, or as base64 where it is no plain UTF-8 text."""
    document: dict[str, object] = {
        "id": record.id,
        "digest": record.digest.hex(),
        "state": record.state,
        **history_members(record),
        "died_at" if record.state == "dead" else "due_at": record.at.isoformat(),
    }
    if record.blobs:
        document["blobs"] = blob_members(record)
    try:
        text = record.body.decode()
    except UnicodeDecodeError:
        text = "\0"
    if _CONTROL.search(text):
        document["body_base64"] = base64.b64encode(record.body).decode()
    else:
        document["body"] = text
    return document


def record_of(document: object) -> KeptRecord:
    """The record of such an object, also of a line of ``dead-YYYY-MM.jsonl``. Raises NoRecord."""
    if not isinstance(document, dict):
        raise NoRecord("not a JSON object")
    state = document.get("state", "dead")
    if state not in STATES:
        raise NoRecord(f"state: one of {', '.join(STATES)}")
    id_ = _text(document, "id")
    if _ID.fullmatch(id_) is None:
        raise NoRecord("id: a UUID in lower case")
    created_at = _moment(document, "created_at")
    return KeptRecord(
        rowid=0,
        id=id_,
        digest=_digest(document),
        state=state,
        label=_text(document, "label"),
        channel=_text(document, "channel"),
        status=None if document.get("status") is None else _whole(document, "status"),
        reason=_text(document, "reason"),
        attempts=_whole(document, "attempts"),
        created_at=created_at,
        at=_moment(document, "died_at") if state == "dead" else created_at,
        body=_body(document),
        blobs=_blobs(document),
    )


def _blobs(document: Mapping[str, object]) -> tuple[NewBlob, ...]:
    """What it refers to; the path is only the name until its file was found."""
    given = document.get("blobs", [])
    if not isinstance(given, list) or len(given) > REFS_MAX:
        raise NoRecord(f"blobs: a list of at most {REFS_MAX}")
    return tuple(_blob(item) for item in given)


def _blob(item: object) -> NewBlob:
    if not isinstance(item, dict) or not is_sha256(_text(item, "sha256")):
        raise NoRecord("blobs: objects with sha256, bytes and mime")
    sha256 = _text(item, "sha256")
    return NewBlob(sha256=sha256, bytes=_whole(item, "bytes"), mime=_text(item, "mime"), path=Path(sha256))


def _text(document: Mapping[str, object], name: str) -> str:
    value = document.get(name, "")
    if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX:
        raise NoRecord(f"{name}: a text of at most {TEXT_CHARS_MAX} characters")
    return value


def _whole(document: Mapping[str, object], name: str) -> int:
    value = document.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise NoRecord(f"{name}: a whole number")
    return value


def _moment(document: Mapping[str, object], name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(str(document.get(name)))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.year < YEAR_MIN:
        raise NoRecord(f"{name}: a moment with its zone, such as 2026-01-31T12:00:00+00:00")
    return moment


def _digest(document: Mapping[str, object]) -> bytes:
    try:
        digest = bytes.fromhex(_text(document, "digest"))
    except ValueError:
        raise NoRecord("digest: hexadecimal") from None
    if len(digest) > DIGEST_BYTES_MAX:
        raise NoRecord(f"digest: at most {DIGEST_BYTES_MAX} bytes")
    return digest


def _body(document: Mapping[str, object]) -> bytes:
    text, encoded = document.get("body"), document.get("body_base64")
    try:
        if isinstance(text, str) and encoded is None:
            body = text.encode()
        elif isinstance(encoded, str) and text is None:
            body = base64.b64decode(encoded, validate=True)
        else:
            body = b""
    except (UnicodeEncodeError, binascii.Error):
        body = b""
    if not body:
        raise NoRecord("body: a text, or body_base64")
    return body
