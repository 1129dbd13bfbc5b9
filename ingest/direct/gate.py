"""Who may post at the direct door: a token of the database, or a signature of the body that settings know."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import structlog

from asgi.types import Scope
from contracts.configured import Family, GatewayConfig
from contracts.credentials import CLOUD_HEADER, WAHA_HEADER, Credentials
from contracts.route import place_in
from ingest.admission import Rates
from ingest.config import IngestConfig
from ingest.direct.books import TokenBook
from ingest.direct.tokens import looks_like_token, read_token
from ingest.problems import NOT_FOUND, RATE_LIMITED, UNKNOWN_TOKEN, ProblemError

TOKEN_HEADER: Final = b"x-gateway-token"
UNKNOWN: Final = "unknown"
TOLD_AGAIN_S: Final = 60.0
"""A refusal is logged once in this time for each gateway."""
_BEARER: Final = b"bearer "

_log: Final = structlog.get_logger("ingest.direct")


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """Whose events the request may bring."""

    gateway: GatewayConfig
    instances: frozenset[str] = frozenset()
    """Empty for all."""
    path_instance: str | None
    token: str = ""
    """As presented, to be cut out of the body."""
    to_verify: Credentials | None = None
    """Not admitted yet: a signature over the body must say so."""


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway of the settings."""

    gateway: GatewayConfig
    credentials: Credentials


class Gate:
    """Decides before the body is read; what was presented is never logged."""

    def __init__(
        self,
        config: IngestConfig,
        gateways: Sequence[GatewayConfig],
        tokens: TokenBook,
        on_refused: Callable[[str], None],
    ) -> None:
        """``on_refused`` takes the gateway's name, or "unknown" for one that nobody has."""
        self._tokens, self._on_refused = tokens, on_refused
        self._configured = {
            gateway.name: Configured(gateway=gateway, credentials=Credentials(gateway))
            for gateway in gateways
        }
        self._guesses = Rates(
            events_per_s=config.token_guesses_per_s,
            burst=config.token_guesses_burst,
            senders_max=config.rate_senders_max,
        )
        self._told_at: dict[str, float] = {}

    def configured(self, source: str) -> Configured | None:
        """The gateway of that name in the settings."""
        return self._configured.get(source)

    def family_of(self, source: str) -> Family | None:
        """What is known of a gateway by its name alone: its tokens' word, else the settings'."""
        configured = self._configured.get(source)
        return self._tokens.family_of(source) or (None if configured is None else configured.gateway.family)

    async def admit(self, source: str, rest: list[bytes], scope: Scope) -> Admitted:
        """Raises ProblemError (401, 404, 429), and UnavailableError when the token cannot be looked up."""
        headers = dict(scope["headers"])
        in_path = rest[0] if rest and looks_like_token(rest[0]) else b""
        if in_path:
            rest = rest[1:]
        value = _in_headers(headers) or in_path
        is_signed = _is_signed(headers)
        grant = None
        if value or not is_signed:
            grant = await self._tokens.grant(read_token(value), on_guess=lambda: self._count_guess(scope))
        if grant is not None and grant.gateway.name == source:
            return Admitted(
                gateway=grant.gateway,
                instances=grant.instances,
                path_instance=_instance(rest, grant.gateway.family),
                token=value.decode("latin-1"),
            )
        configured = self._configured.get(source)
        if configured is None or not is_signed or not configured.credentials.reads_body:
            raise self.refused(source)
        return Admitted(
            gateway=configured.gateway,
            path_instance=_instance(rest, configured.gateway.family),
            to_verify=configured.credentials,
        )

    def refused(self, source: str) -> ProblemError:
        """The answer to a missing or wrong token; a name is told only when it is a gateway's."""
        name = source if self.family_of(source) is not None else UNKNOWN
        self._on_refused(name)
        now = time.monotonic()
        if now - self._told_at.get(name, float("-inf")) > TOLD_AGAIN_S:
            self._told_at[name] = now
            _log.warning("direct.refused", gateway=name)
        return ProblemError(UNKNOWN_TOKEN)

    def _count_guess(self, scope: Scope) -> None:
        client = scope.get("client")
        wait_s = self._guesses.wait_s(str(client[0]) if client else "", 1, time.monotonic())
        if wait_s > 0:
            raise ProblemError(RATE_LIMITED, retry_after_s=math.ceil(wait_s))


def _in_headers(headers: Mapping[bytes, bytes]) -> bytes:
    """A bearer that is none of ours is the gateway's own business: Evolution sends its JWT there."""
    own = headers.get(TOKEN_HEADER, b"").strip()
    if own:
        return own
    authorization = headers.get(b"authorization", b"")
    bearer = authorization[len(_BEARER) :].strip()
    return bearer if authorization[: len(_BEARER)].lower() == _BEARER and looks_like_token(bearer) else b""


def _is_signed(headers: Mapping[bytes, bytes]) -> bool:
    return CLOUD_HEADER in headers or WAHA_HEADER in headers


def _instance(rest: list[bytes], family: Family) -> str | None:
    place = place_in(rest, is_token=lambda _: False, by_events=family == "evolution")
    if not place.understood:
        raise ProblemError(NOT_FOUND, "The path is /api/gateways/<gateway>[/<token>][/<instance>].")
    return place.instance
