"""What a gateway's token looks like, and how it is told from another. Pure.

``zlg_<id>_<secret>``: the id is no secret and finds the row; the secret has 256 random bits, so that a plain
SHA-256 of the token is as good as a slow one, and costs a request nothing (ADR 0010).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from contracts.configured import GatewayConfig

PREFIX: Final = "zlg"
ID_CHARS: Final = 12
SECRET_BYTES: Final = 32
TOKEN_CHARS_MAX: Final = 200

_NO_HASH: Final = bytes(32)


class Presented(msgspec.Struct, frozen=True, kw_only=True):
    """What a request showed; ``text`` is only kept to be cut out of its body."""

    id: str
    hash: bytes
    text: str


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A token that is not revoked: whose events it lets in."""

    id: str
    hash: bytes
    gateway: GatewayConfig
    """Name and family only."""
    instances: frozenset[str]
    """Empty for all."""
    last_used_at: datetime | None


def compose(token_id: str, secret: str) -> str:
    """The token of an id (hex) and a secret (URL-safe base64)."""
    return f"{PREFIX}_{token_id}_{secret}"


def looks_like_token(segment: bytes) -> bool:
    """Whether a path's segment is meant as one, right or wrong."""
    return segment.startswith(b"zlg_")


def hash_of(token: bytes) -> bytes:
    """What the database keeps of a token."""
    return hashlib.sha256(token).digest()


def read_token(value: bytes) -> Presented:
    """Any bytes at all; what is no token has an id that no token has."""
    text = value.decode("latin-1")
    parts = text.split("_", 2) if len(value) <= TOKEN_CHARS_MAX else []
    is_ours = len(parts) == 3 and parts[0] == PREFIX and len(parts[1]) == ID_CHARS
    return Presented(id=parts[1] if is_ours else "", hash=hash_of(value), text=text if is_ours else "")


def matching(grants: Mapping[str, Grant], presented: Presented) -> Grant | None:
    """The grant of that token; the comparison takes the same time whatever is presented."""
    grant = grants.get(presented.id)
    is_same = hmac.compare_digest(_NO_HASH if grant is None else grant.hash, presented.hash)
    return grant if is_same else None
