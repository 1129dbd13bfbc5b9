"""Signatures of our own wire and of the gateways: constant time, rotating secrets, no header can crash them.

Every check is over the exact bytes received. No function here raises because of what a sender wrote.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

import msgspec

SIGNATURE_CHARS_MAX: Final = 256
TOKEN_CHARS_MAX: Final = 8192
CLOUD_PREFIX: Final = "sha256="


class _JwtHeader(msgspec.Struct):
    alg: str


class _JwtClaims(msgspec.Struct):
    exp: int | float
    nbf: int | float | None = None


_decode_jwt_header = msgspec.json.Decoder(_JwtHeader).decode
_decode_jwt_claims = msgspec.json.Decoder(_JwtClaims).decode


def sign(secret: bytes, event_id: str, body: bytes) -> str:
    """Return hex HMAC-SHA256(secret, event_id + "." + body) (contract §1). Refuses an empty secret."""
    if not secret:
        raise ValueError("an empty secret signs nothing")
    mac = hmac.new(secret, _prefix(event_id), hashlib.sha256)
    mac.update(body)
    return mac.hexdigest()


def verify(secrets: Sequence[bytes], event_id: object, body: bytes, signature: object) -> bool:
    """Say whether ``signature`` is one that any of the secrets makes; empty secrets never match."""
    right = False
    prefix = _prefix(event_id if isinstance(event_id, str) else "")
    for secret in secrets:
        mac = hmac.new(secret, prefix, hashlib.sha256)
        mac.update(body)
        right |= _same(mac.hexdigest(), signature) and bool(secret)
    return right


def verify_waha(keys: Sequence[bytes], body: bytes, header: object) -> bool:
    """Check WAHA's ``X-Webhook-Hmac``: hex HMAC-SHA512 of the raw body."""
    right = False
    for key in keys:
        right |= _same(hmac.digest(key, body, "sha512").hex(), header) and bool(key)
    return right


def verify_cloud(secrets: Sequence[bytes], body: bytes, header: object) -> bool:
    """Check Meta's ``X-Hub-Signature-256``: ``sha256=`` + hex HMAC-SHA256 of the raw body."""
    right = False
    for secret in secrets:
        expected = CLOUD_PREFIX + hmac.digest(secret, body, "sha256").hex()
        right |= _same(expected, header) and bool(secret)
    return right


class BodyMacs:
    """The signatures that a gateway's keys make of a body that comes piece by piece.

    `waha` and `cloud` say of a header what `verify_waha` and `verify_cloud` would of the whole body.
    """

    __slots__ = ("_cloud", "_waha")

    def __init__(self, *, waha_keys: Sequence[bytes], cloud_secrets: Sequence[bytes]) -> None:
        self._waha = [hmac.new(key, digestmod="sha512") for key in waha_keys if key]
        self._cloud = [hmac.new(secret, digestmod="sha256") for secret in cloud_secrets if secret]

    def update(self, piece: bytes) -> None:
        """Take the next piece of the body."""
        for mac in (*self._waha, *self._cloud):
            mac.update(piece)

    def waha(self, header: object) -> bool:
        """Check WAHA's header against what came so far."""
        return _is_made([mac.hexdigest() for mac in self._waha], header)

    def cloud(self, header: object) -> bool:
        """Check Meta's header against what came so far."""
        return _is_made([CLOUD_PREFIX + mac.hexdigest() for mac in self._cloud], header)


def verify_evolution_jwt(keys: Sequence[bytes], header: object, now: float, leeway_s: float = 1800.0) -> bool:
    """Check Evolution's ``Authorization: Bearer <HS256 JWT>`` of a webhook with ``jwt_key``.

    Evolution makes the token once, valid for 10 minutes, and sends it again in retries up to 20 minutes
    later: hence the leeway in seconds on ``exp``. ``now`` is Unix time in seconds.
    """
    token = _bearer(header)
    signed, _, signature = token.rpartition(".")
    head, _, claims = signed.partition(".")
    given = _b64url(signature)
    right = False
    for key in keys:
        right |= hmac.compare_digest(hmac.digest(key, signed.encode(), "sha256"), given) and bool(key)
    if not right:
        return False
    try:
        if _decode_jwt_header(_b64url(head)).alg != "HS256":
            return False
        times = _decode_jwt_claims(_b64url(claims))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return times.exp >= now - leeway_s and (times.nbf is None or times.nbf <= now + leeway_s)


def _prefix(event_id: str) -> bytes:
    return event_id.encode("utf-8", "surrogatepass") + b"."


def _same(expected: str, given: object) -> bool:
    if isinstance(given, bytes):
        given = given.decode("latin-1")
    text = given.strip() if isinstance(given, str) and len(given) <= SIGNATURE_CHARS_MAX else ""
    return hmac.compare_digest(expected.encode(), text.lower().encode("utf-8", "surrogatepass"))


def _is_made(signatures: Sequence[str], header: object) -> bool:
    right = False
    for signature in signatures:
        right |= _same(signature, header)
    return right


def _bearer(header: object) -> str:
    if isinstance(header, bytes):
        header = header.decode("latin-1")
    if not isinstance(header, str) or len(header) > TOKEN_CHARS_MAX or not header.isascii():
        return ""
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _b64url(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
