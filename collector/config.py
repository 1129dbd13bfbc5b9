"""Everything the collector can be told, frozen; a value or a pair that would lose events is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from collector.alerts import REPEAT_S
from contracts.envelope import BODY_BYTES_MAX
from contracts.events import KINDS
from outbox.store import StoreLimits

Family: TypeAlias = Literal["evolution", "baileys", "waha", "cloudapi"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)

ChatClass: TypeAlias = Literal["direct", "group", "broadcast", "newsletter"]
CHAT_CLASSES: Final[tuple[ChatClass, ...]] = get_args(ChatClass)

SHED_FROM_SHARE: Final = 0.8
"""How full the outbox is when its operator is told and the first kind of ``capture.shed`` is left out."""
SHEDDABLE: Final = ("presence", "message.receipt", "message.status", "contact", "chat")
"""What an operator may give up for room: the lake can do without it, or sees it again."""
SECRET_CHARS_MIN: Final = 8
"""A shorter secret could be guessed, and cutting values equal to it would cut ordinary words."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


class ConfigError(ValueError):
    """The configuration is refused; the message names the setting."""


def _refuse(condition: bool, message: str) -> None:
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
        _refuse(not self.name or "/" in self.name, "gateways.name: needed, without '/'")
        _refuse(self.family not in FAMILIES, f"gateways.{self.name}.family: one of {', '.join(FAMILIES)}")
        for secret in self.secrets:
            _refuse(
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
        _refuse(bool(odd), f"capture: unknown chat class {sorted(odd)}; one of {', '.join(CHAT_CLASSES)}")
        strange = self.kinds - KINDS
        _refuse(bool(strange), f"capture: unknown kind {sorted(strange)}; one of {', '.join(sorted(KINDS))}")


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
        _refuse(bool(odd), f"capture.shed: {odd}; only of {', '.join(SHEDDABLE)}, least valuable first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of everything that could grow."""

    body_bytes_max: int = BODY_BYTES_MAX
    bodies_in_flight_bytes_max: int = 96 * 1024 * 1024
    heavy_body_bytes: int = 256 * 1024
    """Larger bodies are translated in a thread, so that the others are answered meanwhile."""
    heavy_threads_max: int = 2
    connections_max: int = 4096
    accept_backlog: int = 2048
    keep_alive_s: int = 75
    instances_max: int = 10_000
    tally_rows_max: int = 5_000
    alerts_kept_max: int = 200
    alert_repeat_s: float = REPEAT_S
    clock_skew_alert_s: float = 60.0
    storm_events_max: int = 10
    storm_window_s: float = 10.0
    batch_records_max: int = 1000
    batch_bytes_max: int = 2 * 1024 * 1024
    batches_in_flight_max: int = 3
    solos_in_flight_max: int = 4
    """Records that failed on their own account, each alone on its way beside the batches."""
    request_timeout_s: float = 15.0
    client_keep_alive_s: float = 4.0
    """Below the keep-alive of any usual server (5 s), so that a request never meets a closing socket."""
    drain_s: float = 20.0
    """How long a stop waits for answers on their way."""
    answer_bytes_max: int = 8 * 1024 * 1024
    backlog_alert_records: int = 10_000
    outbox_rows_max: int = 5_000_000
    outbox_bytes_max: int = 10 * 1024**3
    outbox_wal_bytes_max: int = 1024**3
    outbox_reserve_bytes: int = 16 * 1024 * 1024
    load_lines_max: int = 200
    load_bytes_max: int = 4 * 1024 * 1024
    line_bytes_max: int = BODY_BYTES_MAX
    stop_grace_s: float = 10.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            _refuse(getattr(self, name) <= 0, f"limits.{name}: must be above 0")
        _refuse(
            self.bodies_in_flight_bytes_max < self.body_bytes_max,
            "limits.bodies_in_flight_bytes_max: below body_bytes_max, the largest body could never pass",
        )
        _refuse(
            self.drain_s <= self.request_timeout_s,
            "limits.drain_s: not above request_timeout_s, a stop would throw away answers on their way",
        )

    @property
    def store(self) -> StoreLimits:
        """Where the outbox stops taking new records."""
        return StoreLimits(
            rows_max=self.outbox_rows_max,
            bytes_max=self.outbox_bytes_max,
            wal_bytes_max=self.outbox_wal_bytes_max,
            reserve_bytes=self.outbox_reserve_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorConfig:
    """The daemon's settings. Times in seconds, sizes in bytes."""

    backend_url: str
    """Where the backend's root is, such as ``http://127.0.0.1:8000``; paths of the contract are added."""
    secrets: tuple[bytes, ...]
    """Shared with the backend; the first one signs."""
    data_folder: Path
    name: str = "collector"
    gateways: tuple[GatewayConfig, ...] = field(default_factory=default_gateways)
    accounts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(gateway, native instance) to scope."""
    host: str = "127.0.0.1"
    port: int = 8080
    capture: CapturePolicy = field(default_factory=CapturePolicy)
    heartbeat_s: float = 30.0
    metrics_open: bool = False
    """``/metrics`` for everybody who reaches the door; else for this machine, as ``/status`` is."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        url = urlsplit(self.backend_url)
        _refuse(url.scheme not in {"http", "https"} or not url.hostname, "backend_url: an http(s) URL")
        _refuse(not self.secrets or not all(self.secrets), "secrets: an empty secret would be known to all")
        _refuse(
            url.username is not None or url.password is not None,
            "backend_url: without user and password: the status shows it, and the signature says who we are",
        )
        _refuse(
            _NAME.fullmatch(self.name) is None,
            "name: 1 to 100 of letters, digits, '.', '_', '-': it travels in a header and in a path",
        )
        _refuse(not self.gateways, "gateways: at least one")
        names = [gateway.name for gateway in self.gateways]
        _refuse(len(set(names)) != len(names), "gateways: two of one name")
        _refuse(self.heartbeat_s <= 0, "heartbeat_s: must be above 0")
        _refuse(not 0 <= self.port <= 65535, "port: 0 to 65535")
        _refuse(not all(self.accounts.values()), "accounts: an empty scope")
        for gateway, _instance in self.accounts:
            _refuse(gateway not in names, f"accounts: {gateway!r} is no configured gateway")

    @property
    def cut_values(self) -> tuple[str, ...]:
        """Every configured secret as text, to be cut wherever a body holds it."""
        own = (secret.decode("utf-8", "replace") for secret in self.secrets)
        doors = (secret for gateway in self.gateways for secret in gateway.secrets)
        return tuple(sorted({secret for secret in (*own, *doors) if len(secret) >= SECRET_CHARS_MIN}))

    @property
    def socket_path(self) -> Path:
        """The control socket, mode 0600."""
        return self.data_folder / "control.sock"
