"""Reads what a collector tells about itself (contract §8). Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from contracts.heartbeat import Heartbeat, decode_heartbeat
from contracts.jsontext import NotJson, decode
from contracts.sanitize import sanitize
from ingest.problems import NOT_JSON, WRONG_SHAPE, ProblemError

HEARTBEAT_BYTES_MAX: Final = 8 * 1024 * 1024


def read_heartbeat(name: str, body: bytes) -> tuple[Heartbeat, bytes]:
    """The heartbeat, and its JSON as jsonb takes it. Raises ProblemError (400, 422)."""
    try:
        decode(body)
        clean = sanitize(body).json.encode()
    except NotJson as error:
        raise ProblemError(NOT_JSON, f"At byte {error.position}: {error.reason}.") from None
    try:
        beat = decode_heartbeat(clean)
    except (msgspec.MsgspecError, RecursionError):
        raise ProblemError(WRONG_SHAPE, "This is no heartbeat.") from None
    if beat.name != name:
        raise ProblemError(WRONG_SHAPE, "The name in the path is not the name in the body.")
    return beat, clean
