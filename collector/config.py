"""Everything the collector can be told, frozen; a value or a pair that would lose events is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from collector.alerts import REPEAT_S
from collector.amqp_config import AmqpConfig
from contracts.configured import CapturePolicy, GatewayConfig, cut_values, default_gateways, refuse
from contracts.envelope import BODY_BYTES_MAX, WRAP_BYTES_MAX
from outbox.store import StoreLimits

SHED_FROM_SHARE: Final = 0.8
"""How full the outbox is when its operator is told and the first kind of ``capture.shed`` is left out."""

MEDIA_BYTES_MIN: Final = 32 * 1024
"""What is shorter may be the picture of a QR code, which is never written: it is cut out later, in memory."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of everything that could grow."""

    body_bytes_max: int = BODY_BYTES_MAX - WRAP_BYTES_MAX
    """Without its media: so much of it is held in memory, and travels in one event."""
    body_with_media_bytes_max: int = 160 * 1024 * 1024
    """Evolution sends up to 136 MB."""
    media_bytes_min: int = 64 * 1024
    """Base64 of so many bytes where a gateway puts a file is cut out and travels as a blob."""
    media_count_max: int = 2000
    """In one body; what is more stays in it."""
    media_in_flight_bytes_max: int = 512 * 1024 * 1024
    bodies_in_flight_bytes_max: int = 96 * 1024 * 1024
    heavy_body_bytes: int = 256 * 1024
    """Larger bodies are translated in a thread, so that the others are answered meanwhile."""
    heavy_threads_max: int = 2
    connections_max: int = 4096
    accept_backlog: int = 2048
    keep_alive_s: int = 75
    instances_max: int = 10_000
    tally_rows_max: int = 5_000
    housekeeping_s: float = 5.0
    """How often storms, backlog, counts of channels and fading alerts are looked at."""
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
    blobs_in_flight_max: int = 2
    """Blobs on their way at once, beside the events and never before them."""
    request_timeout_s: float = 15.0
    client_keep_alive_s: float = 4.0
    """Below the keep-alive of any usual server (5 s), so that a request never meets a closing socket."""
    drain_s: float = 20.0
    """How long a stop waits for answers on their way."""
    answer_bytes_max: int = 8 * 1024 * 1024
    backlog_alert_records: int = 10_000
    backlog_alert_age_s: float = 900.0
    outbox_rows_max: int = 5_000_000
    outbox_bytes_max: int = 10 * 1024**3
    outbox_wal_bytes_max: int = 1024**3
    outbox_reserve_bytes: int = 16 * 1024 * 1024
    load_lines_max: int = 200
    load_bytes_max: int = 4 * 1024 * 1024
    line_bytes_max: int = BODY_BYTES_MAX - WRAP_BYTES_MAX
    stop_grace_s: float = 10.0
    amqp_batch_bytes_max: int = 4 * 1024 * 1024
    amqp_hold_s_max: float = 300.0
    """Far below the 30 minutes after which a broker takes unacknowledged messages away."""
    amqp_reconnect_s_max: float = 15.0
    amqp_disconnected_alert_s: float = 30.0
    amqp_watch_s: float = 5.0
    amqp_mute_s: float = 30.0
    channel_silent_s: float = 600.0
    channel_grace_s: float = 1800.0
    """How long a record's copies by other channels have time to come until it is counted."""
    channel_counts_max: int = 100_000
    """Counts per instance, hour, kind and channels that wait for the backend; the oldest go first."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            refuse(getattr(self, name) <= 0, f"limits.{name}: must be above 0")
        refuse(
            self.bodies_in_flight_bytes_max < self.body_bytes_max,
            "limits.bodies_in_flight_bytes_max: below body_bytes_max, the largest body could never pass",
        )
        refuse(
            self.media_bytes_min < MEDIA_BYTES_MIN,
            f"limits.media_bytes_min: below {MEDIA_BYTES_MIN}, pictures of QR codes would touch the disk",
        )
        refuse(
            self.body_with_media_bytes_max < self.body_bytes_max,
            "limits.body_with_media_bytes_max: below body_bytes_max, which a body without media may have",
        )
        refuse(
            self.media_in_flight_bytes_max < self.body_with_media_bytes_max,
            "limits.media_in_flight_bytes_max: below body_with_media_bytes_max, it could never pass",
        )
        refuse(
            self.drain_s <= self.request_timeout_s,
            "limits.drain_s: not above request_timeout_s, a stop would throw away answers on their way",
        )

    @property
    def media_chars_min(self) -> int:
        """How long the base64 of ``media_bytes_min`` is."""
        return -(-self.media_bytes_min // 3) * 4

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
    amqp: tuple[AmqpConfig, ...] = ()
    """The RabbitMQ of each gateway that has one."""
    cut_media: bool = True
    """Files leave the bodies at the doors and travel as blobs. A backend of another make takes none."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        url = _url(self.backend_url)
        refuse(
            url is None or url.scheme not in {"http", "https"} or not url.hostname,
            "backend_url: an http(s) URL",
        )
        refuse(not self.secrets or not all(self.secrets), "secrets: an empty secret would be known to all")
        refuse(
            url is not None and (url.username is not None or url.password is not None),
            "backend_url: without user and password: the status shows it, and the signature says who we are",
        )
        refuse(
            _NAME.fullmatch(self.name) is None,
            "name: 1 to 100 of letters, digits, '.', '_', '-': it travels in a header and in a path",
        )
        refuse(not self.gateways, "gateways: at least one")
        names = [gateway.name for gateway in self.gateways]
        refuse(len(set(names)) != len(names), "gateways: two of one name")
        refuse(self.heartbeat_s <= 0, "heartbeat_s: must be above 0")
        refuse(not 0 <= self.port <= 65535, "port: 0 to 65535")
        refuse(not all(self.accounts.values()), "accounts: an empty scope")
        for gateway, _instance in self.accounts:
            refuse(gateway not in names, f"accounts: {gateway!r} is no configured gateway")
        evolutions = {gateway.name for gateway in self.gateways if gateway.family == "evolution"}
        brokers = [amqp.gateway for amqp in self.amqp]
        refuse(len(set(brokers)) != len(brokers), "amqp: two of one gateway")
        for name in brokers:
            refuse(name not in evolutions, f"amqp: {name!r} is no configured gateway of family evolution")

    @property
    def cut_values(self) -> tuple[str, ...]:
        """Every configured secret as text, to be cut wherever a body holds it."""
        return cut_values(self.secrets, self.gateways, (amqp.password for amqp in self.amqp))

    @property
    def socket_path(self) -> Path:
        """The control socket, mode 0600."""
        return self.data_folder / "control.sock"


def _url(text: str) -> SplitResult | None:
    """None when it cannot be taken apart, or its port is none."""
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError:
        return None
    return url
