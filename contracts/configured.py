"""What an operator says of gateways and of what is captured, in one form for every door."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from contracts.events import KINDS

Family: TypeAlias = Literal["evolution", "baileys", "waha", "cloudapi"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)

ChatClass: TypeAlias = Literal["direct", "group", "broadcast", "newsletter"]
CHAT_CLASSES: Final[tuple[ChatClass, ...]] = get_args(ChatClass)

SHEDDABLE: Final = ("presence", "message.receipt", "message.status", "contact", "chat")
"""What an operator may give up for room: the lake can do without it, or sees it again."""
SECRET_CHARS_MIN: Final = 8
"""A shorter secret could be guessed, and cutting values equal to it would cut ordinary words."""


class ConfigError(ValueError):
    """The configuration is refused; the message names the setting."""


def refuse(condition: bool, message: str) -> None:
    """Raises ConfigError with the message when the condition holds."""
    if condition:
        raise ConfigError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """One gateway and everything that opens its door. Any one of its credentials is enough."""

    name: str
    family: Family
    tokens: tuple[str, ...] = ()
    """Travel as X-Collector-Token, as Authorization: Bearer, or as the first path segment after the name."""
    jwt_keys: tuple[str, ...] = ()
    """Evolution's ``jwt_key``: HS256 of Authorization: Bearer, expiry with a leeway of 30 minutes."""
    hmac_keys: tuple[str, ...] = ()
    """WAHA's ``hmac.key``: X-Webhook-Hmac, SHA-512 of the body."""
    app_secrets: tuple[str, ...] = ()
    """Cloud API's app secret: X-Hub-Signature-256."""
    verify_token: str | None = None
    """Cloud API's handshake."""
    instances: tuple[str, ...] = ()
    """Native instances that are expected; another one is stored too, with an alert."""

    def __post_init__(self) -> None:
        refuse(not self.name or "/" in self.name, "gateways.name: needed, without '/'")
        refuse(self.family not in FAMILIES, f"gateways.{self.name}.family: one of {', '.join(FAMILIES)}")
        for secret in self.secrets:
            refuse(
                len(secret) < SECRET_CHARS_MIN,
                f"gateways.{self.name}: a secret has fewer than {SECRET_CHARS_MIN} characters",
            )

    @property
    def has_credentials(self) -> bool:
        """False when only loopback peers may post. Behind a proxy on this machine everybody is loopback."""
        return bool(self.tokens or self.jwt_keys or self.hmac_keys or self.app_secrets)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every value that must never be stored or logged."""
        verify = (self.verify_token,) if self.verify_token is not None else ()
        return (*self.tokens, *self.jwt_keys, *self.hmac_keys, *self.app_secrets, *verify)


def default_gateways() -> tuple[GatewayConfig, ...]:
    """Without configuration there are four, named like their families, open to loopback only."""
    return tuple(GatewayConfig(name=family, family=family) for family in FAMILIES)


def cut_values(
    signing: Iterable[bytes], gateways: Iterable[GatewayConfig], others: Iterable[str] = ()
) -> tuple[str, ...]:
    """Every configured secret as text, to be cut wherever a body holds it."""
    own = (secret.decode("utf-8", "replace") for secret in signing)
    doors = (secret for gateway in gateways for secret in gateway.secrets)
    return tuple(sorted({secret for secret in (*own, *doors, *others) if len(secret) >= SECRET_CHARS_MIN}))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFilter:
    """A set of facts. Each field that is not empty must hold the fact's value."""

    kinds: frozenset[str] = frozenset()
    chat_classes: frozenset[ChatClass] = frozenset()
    """Says nothing about a fact without a chat."""
    instances: frozenset[str] = frozenset()
    """As ``<gateway>/<native instance>``."""

    def __post_init__(self) -> None:
        odd = self.chat_classes - set(CHAT_CLASSES)
        refuse(bool(odd), f"capture: unknown chat class {sorted(odd)}; one of {', '.join(CHAT_CLASSES)}")
        strange = self.kinds - KINDS
        refuse(bool(strange), f"capture: unknown kind {sorted(strange)}; one of {', '.join(sorted(KINDS))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePolicy:
    """What becomes a record. Everything does, except presence; ``deny`` wins over ``allow``.

    ``shed``: kinds that are left out while the outbox is nearly full, the first one first.
    """

    presence: bool = False
    allow: CaptureFilter = field(default_factory=CaptureFilter)
    deny: CaptureFilter = field(default_factory=CaptureFilter)
    shed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        odd = [kind for kind in self.shed if kind not in SHEDDABLE]
        refuse(bool(odd), f"capture.shed: {odd}; only of {', '.join(SHEDDABLE)}, least valuable first")
