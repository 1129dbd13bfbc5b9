"""What an answer means, as one total function: delivered, dead, halt or try again."""

from __future__ import annotations

import enum
from typing import Final


class Verdict(enum.StrEnum):
    DELIVERED = "delivered"
    DEAD = "dead"
    HALT = "halt"
    RETRY = "retry"


class TransportFailure(enum.StrEnum):
    """Why there is no answer. Each of them is an outage of the destination, never the record's fault."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    WRITE = "write"
    READ = "read"
    DISCONNECTED = "disconnected"
    PROTOCOL = "protocol"
    POOL = "pool"
    ANSWER_TOO_LARGE = "answer_too_large"
    OTHER = "other"


SPLITTING: Final = frozenset({400, 413, 415, 422})
"""Answers that say something about one record: a batch that gets one is halved, down to singles."""

_RECORD_AT_FAULT: Final = frozenset({400, 422})
_COME_AGAIN: Final = frozenset({408, 425, 429})


def classify_response(
    status: int | TransportFailure, *, receipt: bool, own_too_large: bool, alone: bool
) -> Verdict:
    """The verdict on one request.

    ``receipt``: the body held a receipt of ours; for a single its own, stored or duplicate; for a batch
    any line. ``own_too_large``: a 413 of our own problem type, not a proxy's. ``alone``: one record was
    posted; only then may the verdict be DEAD (a batch gets RETRY and is split, see ``splits``).
    """
    if isinstance(status, TransportFailure):
        return Verdict.RETRY
    if 200 <= status < 300:
        return Verdict.DELIVERED if receipt else Verdict.HALT
    if splits(status, alone=alone):
        return Verdict.RETRY
    if status in _RECORD_AT_FAULT or (status == 413 and own_too_large):
        return Verdict.DEAD
    if status in _COME_AGAIN:
        return Verdict.RETRY
    return Verdict.HALT if 300 <= status < 500 else Verdict.RETRY


def splits(status: int | TransportFailure, *, alone: bool) -> bool:
    """True when the batch must be posted again in halves: one of its records may be at fault."""
    return not alone and status in SPLITTING
