"""Who may post at a gateway's door. Every comparison takes the same time, and no header can raise."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from contracts.configured import GatewayConfig
from contracts.signing import BodyMacs, verify_cloud, verify_evolution_jwt, verify_waha

JWT_LEEWAY_S: Final = 1800
"""Evolution makes one token for all retries of an event: the later ones come expired."""

CHALLENGE_CHARS_MAX: Final = 1024
QUERY_FIELDS_MAX: Final = 20

TOKEN_HEADER: Final = b"x-collector-token"
WAHA_HEADER: Final = b"x-webhook-hmac"
CLOUD_HEADER: Final = b"x-hub-signature-256"
_BEARER: Final = b"bearer "


class Credentials:
    """One gateway's secrets as bytes, ready to be compared."""

    __slots__ = ("_app_secrets", "_hmac_keys", "_jwt_keys", "_tokens", "_verify_token", "needed")

    def __init__(self, gateway: GatewayConfig) -> None:
        self.needed = gateway.has_credentials
        self._tokens = _encoded(gateway.tokens)
        self._jwt_keys = _encoded(gateway.jwt_keys)
        self._hmac_keys = _encoded(gateway.hmac_keys)
        self._app_secrets = _encoded(gateway.app_secrets)
        self._verify_token = gateway.verify_token.encode() if gateway.verify_token is not None else None

    @property
    def reads_body(self) -> bool:
        """True when a signature of the body may be what opens the door."""
        return bool(self._hmac_keys or self._app_secrets)

    def is_token(self, value: bytes) -> bool:
        """True when ``value`` is one of the tokens."""
        return _is_one_of(value, self._tokens)

    def headers_allow(self, headers: Mapping[bytes, bytes], now_s: float) -> bool:
        """True when a token or a JWT is among the headers. ``now_s`` is the UNIX time."""
        if self.is_token(headers.get(TOKEN_HEADER, b"")):
            return True
        authorization = headers.get(b"authorization", b"")
        if authorization[: len(_BEARER)].lower() != _BEARER:
            return False
        if self.is_token(authorization[len(_BEARER) :].strip()):
            return True
        return bool(self._jwt_keys) and verify_evolution_jwt(
            self._jwt_keys, authorization, now_s, JWT_LEEWAY_S
        )

    def body_allows(self, headers: Mapping[bytes, bytes], body: bytes) -> bool:
        """True when a header signs the body as it came over the wire."""
        waha = headers.get(WAHA_HEADER)
        if waha is not None and verify_waha(self._hmac_keys, body, waha):
            return True
        cloud = headers.get(CLOUD_HEADER)
        return cloud is not None and verify_cloud(self._app_secrets, body, cloud)

    def macs(self) -> BodyMacs:
        """For a body that comes piece by piece; `pieces_allow` judges them."""
        return BodyMacs(waha_keys=self._hmac_keys, cloud_secrets=self._app_secrets)

    def pieces_allow(self, headers: Mapping[bytes, bytes], macs: BodyMacs) -> bool:
        """True when a header signs the body that the macs were told; the same as ``body_allows`` of it."""
        waha, cloud = headers.get(WAHA_HEADER), headers.get(CLOUD_HEADER)
        return (waha is not None and macs.waha(waha)) or (cloud is not None and macs.cloud(cloud))

    def answer_to_handshake(self, query_string: bytes) -> bytes | None:
        """What Cloud API's GET is answered with: its challenge, or None when the verify token is not ours."""
        try:
            query = parse_qs(query_string.decode("latin-1"), max_num_fields=QUERY_FIELDS_MAX)
        except ValueError:
            return None
        given = query.get("hub.verify_token", [""])[0].encode("utf-8", "surrogatepass")
        challenge = query.get("hub.challenge", [""])[0]
        is_ours = self._verify_token is not None and hmac.compare_digest(given, self._verify_token)
        subscribes = query.get("hub.mode") == ["subscribe"]
        return (
            challenge.encode() if is_ours and subscribes and len(challenge) <= CHALLENGE_CHARS_MAX else None
        )


def _encoded(values: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(value.encode() for value in values)


def _is_one_of(value: bytes, known: tuple[bytes, ...]) -> bool:
    found = False
    for secret in known:
        found |= hmac.compare_digest(value, secret)
    return found
