"""Everything an operator can set, frozen, with what each key is for; dangerous pairs are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from collector.amqp_config import GLOBAL_EXCHANGE, PREFETCH
from collector.config import Limits as CollectorLimits
from contracts.configured import CapturePolicy, Family
from ingest.config import CANCEL_S, IngestConfig
from zaplake.secret import Secret
from zaplake.trouble import UsageTrouble
from zaplake.work_settings import WorkSettings

LOOPBACK: tuple[str, ...] = ("127.0.0.1", "::1", "localhost")
SecretList: TypeAlias = tuple[Secret, ...]
NO_DSN = IngestConfig(dsn="", secrets=(b"replaced by the wiring",))
"""The backend's limits; database and secrets have keys of their own and are put in by the wiring."""


class GatewayAmqpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[gateways.amqp]``: the RabbitMQ that an Evolution gateway publishes to; as ``[amqp]``."""

    url: Secret | None = None
    url_file: str = ""
    instances: tuple[str, ...] = ()
    global_exchange: str = GLOBAL_EXCHANGE
    prefix: str = ""
    queue: str = ""
    prefetch: int = PREFETCH
    drain_gateway_queues: bool = True


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ``[[gateways]]`` entry; any one of its credentials opens its door."""

    name: str
    family: Family
    tokens: SecretList = ()
    jwt_keys: SecretList = ()
    hmac_keys: SecretList = ()
    app_secrets: SecretList = ()
    verify_token: Secret | None = None
    instances: tuple[str, ...] = ()
    amqp: GatewayAmqpSettings | None = None

    @property
    def has_credentials(self) -> bool:
        """False when only loopback may post."""
        return bool(self.tokens or self.jwt_keys or self.hmac_keys or self.app_secrets)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Logs go to stderr; no message text and no phone number at info and above."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="Least severe log line that is written."),
    ] = "info"
    format: Annotated[
        Literal["auto", "json", "text"],
        Meta(description="`auto`: text on a terminal, JSON lines elsewhere."),
    ] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """Where alerts are sent. Each is told once, repeated slowly, and called resolved."""

    urls: Annotated[
        SecretList,
        Meta(description="Apprise URLs that alerts are sent to; `zaplake alerts test` tries them."),
    ] = ()
    gather_s: Annotated[
        float, Meta(ge=0, description="Seconds that an alert waits for others, to go as one message.")
    ] = 3.0
    pause_s: Annotated[
        float, Meta(ge=0, description="Seconds between two messages to one URL; what comes meanwhile is one.")
    ] = 60.0
    timeout_s: Annotated[
        float, Meta(gt=0, description="Seconds until a message counts as not sent; it is tried again.")
    ] = 15.0
    retry_s: Annotated[
        float, Meta(gt=0, description="Seconds until it is; doubled each time, up to 15 minutes.")
    ] = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """The backend's HTTP doors."""

    host: Annotated[str, Meta(description="Address the backend listens on.")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="Port the backend listens on; 0 takes a free one.")
    ] = 8000
    workers: Annotated[
        int, Meta(ge=1, le=64, description="Processes of `zaplake serve` on this port (`--workers`).")
    ] = 1
    metrics_open: Annotated[
        bool, Meta(description="Serve `/metrics` to all who reach the backend, not only to this machine.")
    ] = False
    blob_store_url: Annotated[
        str,
        Meta(
            description="Bucket for images and the like (`s3://…`, `gs://…`, `az://…`; credentials from "
            "`AWS_…` and so on); empty: the folder `blobs` of the data folder."
        ),
    ] = ""
    alerts: AlertSettings = field(default_factory=AlertSettings)
    limits: IngestConfig = NO_DSN


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSettings:
    """The daemon beside the gateway."""

    name: Annotated[str, Meta(description="Name of this collector, unique at its backend.")] = "collector"
    backend_url: Annotated[str, Meta(description="Root of the backend; `up` uses its own.")] = (
        "http://127.0.0.1:8000"
    )
    host: Annotated[str, Meta(description="Address the gateways post to.")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="Port the gateways post to; 0 takes a free one.")
    ] = 8080
    heartbeat_s: Annotated[
        float, Meta(gt=0, description="Seconds between two heartbeats to the backend.")
    ] = 30.0
    metrics_open: Annotated[
        bool, Meta(description="Serve `/metrics` to all who reach the door, not only to this machine.")
    ] = False
    cut_media: Annotated[
        bool, Meta(description="Media leave the events as blobs; false when the backend is another make's.")
    ] = True
    alerts: AlertSettings = field(default_factory=AlertSettings)
    limits: CollectorLimits = field(default_factory=CollectorLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionSettings:
    """Where `gateway connect`, `gateway check` and `doctor` ask Evolution; the collector does not need it."""

    api_url: Annotated[str, Meta(description="Root of Evolution's REST API; unset: it is not asked.")] = ""
    api_key: Annotated[
        Secret | None, Meta(description="Its global API key, or the token of the one instance.")
    ] = None
    collector_url: Annotated[
        str, Meta(description="How Evolution reaches this collector, such as `http://collector:8080`.")
    ] = ""
    gateway: Annotated[
        str, Meta(description="Name of its `[[gateways]]` entry; needed when there are several.")
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpSettings:
    """RabbitMQ of the default gateway ``evolution``; your own gateways have it in ``[gateways.amqp]``."""

    url: Annotated[
        Secret | None,
        Meta(
            description="The broker, such as `amqps://user:password@host/vhost`; also as `AMQP_URL`. "
            "`[gateways.amqp]` without a URL uses it too."
        ),
    ] = None
    url_file: Annotated[str, Meta(description="File that holds the URL, such as a mounted secret.")] = ""
    instances: Annotated[
        tuple[str, ...],
        Meta(description="Instances that publish: each has an exchange of its name. Empty: the gateway's."),
    ] = ()
    global_exchange: Annotated[
        str,
        Meta(description="Exchange of all instances (`RABBITMQ_EXCHANGE_NAME` there); empty: there is none."),
    ] = GLOBAL_EXCHANGE
    prefix: Annotated[str, Meta(description="The gateway's `RABBITMQ_PREFIX_KEY`.")] = ""
    queue: Annotated[
        str, Meta(description="Our own queue; empty: `zaplake.<collector>.<gateway>`. Unique to a collector.")
    ] = ""
    prefetch: Annotated[int, Meta(description="Messages that may be here unacknowledged at once.")] = PREFETCH
    drain_gateway_queues: Annotated[
        bool,
        Meta(
            description="Empty the gateway's own queues that nobody else reads; unread they fill the "
            "broker's disk. Set false where another program reads them."
        ),
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One frozen value for the whole process."""

    data_dir: Annotated[
        Path,
        Meta(description="Folder of outbox, blobs, embedded Postgres and signing secret (`--data-dir`)."),
    ] = Path("data")
    database_url: Annotated[
        Secret | None,
        Meta(description="Postgres of the lake; without it `up` runs its own. Also as `DATABASE_URL`."),
    ] = None
    signing_secrets: Annotated[
        SecretList,
        Meta(description="Shared by collector and backend: the first signs, all are accepted."),
    ] = ()
    gateway_tokens: Annotated[
        SecretList, Meta(description="Open the four default gateways to others than loopback.")
    ] = ()
    gateways: Annotated[
        tuple[GatewaySettings, ...],
        Meta(description="Your gateways; without any there are `evolution`, `baileys`, `waha`, `cloudapi`."),
    ] = ()
    accounts: Annotated[
        Mapping[str, str],
        Meta(description='`"<gateway>/<instance>" = "<scope>"`; instances of one scope share rows.'),
    ] = field(default_factory=dict)
    amqp: AmqpSettings = field(default_factory=AmqpSettings)
    capture: CapturePolicy = field(default_factory=CapturePolicy)
    log: LogSettings = field(default_factory=LogSettings)
    ingest: IngestSettings = field(default_factory=IngestSettings)
    work: WorkSettings = field(default_factory=WorkSettings)
    collector: CollectorSettings = field(default_factory=CollectorSettings)
    evolution: EvolutionSettings = field(default_factory=EvolutionSettings)


def refuse_misfit(settings: Settings) -> None:
    """Raises UsageTrouble where backend and collector, run together, would work against each other."""
    backend, collector = settings.ingest.limits, settings.collector.limits
    misfits = (
        (
            collector.request_timeout_s <= backend.commit_s_max + CANCEL_S,
            "collector.limits.request_timeout_s is not 2 s above ingest.limits.commit_s_max",
            "a slow commit would be posted again for ever",
        ),
        (
            backend.silent_after_s <= settings.collector.heartbeat_s,
            "ingest.limits.silent_after_s is not above collector.heartbeat_s",
            "every collector would be called silent",
        ),
        (
            collector.batch_records_max > backend.batch_lines_max,
            "collector.limits.batch_records_max is above ingest.limits.batch_lines_max",
            "full batches would be refused",
        ),
        (
            collector.body_with_media_bytes_max > backend.blob_bytes_max,
            "collector.limits.body_with_media_bytes_max is above ingest.limits.blob_bytes_max",
            "the largest media would be taken and then refused for good",
        ),
    )
    for is_misfit, pair, harm in misfits:
        if is_misfit:
            raise UsageTrouble(f"settings: {pair}: {harm}", "change one of the two; see docs/settings.md")


def refuse_dangerous(settings: Settings) -> None:
    """Raises UsageTrouble for values that are fine alone and lose events together."""
    theirs = settings.collector
    open_to_others = settings.gateway_tokens or any(gateway.has_credentials for gateway in settings.gateways)
    if theirs.host not in LOOPBACK and not open_to_others:
        raise UsageTrouble(
            f"collector.host is {theirs.host}, but no gateway has a secret: only loopback could post",
            "set gateway_tokens (ZAPLAKE_GATEWAY_TOKENS), or go back to collector.host = 127.0.0.1",
        )
    if settings.gateway_tokens and settings.gateways:
        raise UsageTrouble(
            "gateway_tokens belong to the default gateways, but `gateways` lists your own",
            "move the tokens into the gateways' own `tokens`",
        )
    if settings.gateways and replace(settings.amqp, url=None, url_file="") != AmqpSettings():
        raise UsageTrouble(
            "[amqp] belongs to the default gateway, but `gateways` lists your own",
            "move all of it but the URL into the gateway's own [gateways.amqp]",
        )
    for key in settings.accounts:
        if "/" not in key:
            raise UsageTrouble(
                f"accounts: {key!r} is not <gateway>/<instance>", 'write it as "evolution/shop-1" = "shop"'
            )
