"""Turns the settings into the configurations of the rooms."""

from __future__ import annotations

import dataclasses
import secrets as random_secrets
from pathlib import Path

from collector.amqp_config import AmqpConfig
from collector.config import CollectorConfig
from contracts.configured import ConfigError, GatewayConfig, cut_values, default_gateways
from ingest.config import ConfigError as IngestConfigError
from ingest.config import IngestConfig
from ingest.direct.config import DirectConfig
from ingest.inbox.config import InboxConfig
from zaplake.secret import Secret, kept_secret
from zaplake.settings import AmqpSettings, GatewayAmqpSettings, GatewaySettings, Settings
from zaplake.trouble import UsageTrouble

OUTBOX_FOLDER = "outbox"
BLOB_FOLDER = "blobs"


def signing_secrets(settings: Settings) -> tuple[bytes, ...]:
    """The configured ones, else the one of the data folder. Raises UsageTrouble when there is none."""
    found = _found_secrets(settings)
    if not found:
        raise UsageTrouble(
            "no signing secret is set",
            "set ZAPLAKE_SIGNING_SECRETS to the same value here and there (make one: openssl rand -hex 32)",
        )
    return found


def ingest_config(settings: Settings, *, dsn: str, secrets: tuple[bytes, ...]) -> IngestConfig:
    """The backend's configuration."""
    try:
        return dataclasses.replace(
            settings.ingest.limits,
            dsn=dsn,
            secrets=secrets,
            metrics_open=settings.ingest.metrics_open,
            blob_folder=blob_folder(settings),
            blob_store_url=settings.ingest.blob_store_url,
        )
    except IngestConfigError as error:
        raise UsageTrouble(f"settings: ingest.{error}", "see docs/settings.md") from error


def inbox_config(settings: Settings, *, dsn: str) -> InboxConfig:
    """The configuration of the process that runs rules."""
    return dataclasses.replace(
        settings.work.limits,
        dsn=dsn,
        transaction_pooler=settings.ingest.limits.transaction_pooler,
        metrics_open=settings.work.metrics_open,
    )


def collector_config(
    settings: Settings, *, secrets: tuple[bytes, ...], backend_url: str | None = None
) -> CollectorConfig:
    """The daemon's configuration; ``backend_url`` wins over the settings. Raises UsageTrouble."""
    try:
        return CollectorConfig(
            backend_url=backend_url or settings.collector.backend_url,
            secrets=secrets,
            data_folder=outbox_folder(settings),
            name=settings.collector.name,
            gateways=_gateways(settings),
            accounts=_accounts(settings),
            host=settings.collector.host,
            port=settings.collector.port,
            capture=settings.capture,
            heartbeat_s=settings.collector.heartbeat_s,
            metrics_open=settings.collector.metrics_open,
            cut_media=settings.collector.cut_media,
            amqp=_brokers(settings),
            limits=settings.collector.limits,
        )
    except ConfigError as error:
        raise UsageTrouble(f"settings: {error}", "see docs/settings.md") from error


def direct_config(settings: Settings, *, secrets: tuple[bytes, ...]) -> DirectConfig:
    """What the backend's direct door shares with a collector. Raises UsageTrouble."""
    try:
        gateways = _gateways(settings)
        return DirectConfig(
            gateways=gateways,
            accounts=_accounts(settings),
            capture=settings.capture,
            secrets=cut_values(secrets, gateways, (amqp.password for amqp in _brokers(settings))),
        )
    except ConfigError as error:
        raise UsageTrouble(f"settings: {error}", "see docs/settings.md") from error


def verbs_config(settings: Settings) -> CollectorConfig:
    """For an operator's verb on the data folder: nothing is signed, so a secret of the moment will do."""
    found = _found_secrets(settings) or (random_secrets.token_bytes(32),)
    return collector_config(settings, secrets=found)


def outbox_folder(settings: Settings) -> Path:
    """Where the collector keeps its file: 0700, beside the folder of the embedded Postgres."""
    return settings.data_dir.resolve() / OUTBOX_FOLDER


def blob_folder(settings: Settings) -> Path:
    """Where the backend takes blobs in, and keeps them unless it has a bucket."""
    return settings.data_dir.resolve() / BLOB_FOLDER


def _found_secrets(settings: Settings) -> tuple[bytes, ...]:
    if settings.signing_secrets:
        return tuple(secret.reveal().encode() for secret in settings.signing_secrets)
    kept = kept_secret(settings.data_dir)
    return () if kept is None else (kept.reveal().encode(),)


def _gateways(settings: Settings) -> tuple[GatewayConfig, ...]:
    if settings.gateways:
        return tuple(map(_gateway, settings.gateways))
    tokens = _revealed(settings.gateway_tokens)
    return tuple(dataclasses.replace(gateway, tokens=tokens) for gateway in default_gateways())


def _gateway(given: GatewaySettings) -> GatewayConfig:
    return GatewayConfig(
        name=given.name,
        family=given.family,
        tokens=_revealed(given.tokens),
        jwt_keys=_revealed(given.jwt_keys),
        hmac_keys=_revealed(given.hmac_keys),
        app_secrets=_revealed(given.app_secrets),
        verify_token=given.verify_token.reveal() if given.verify_token is not None else None,
        instances=given.instances,
    )


def _brokers(settings: Settings) -> tuple[AmqpConfig, ...]:
    """Raises ConfigError, and UsageTrouble for a URL that is missing or cannot be read."""
    common = _amqp_url(settings.amqp)
    if not settings.gateways:
        return () if common is None else (_broker(settings.amqp, common, "evolution", ()),)
    found = []
    for gateway in settings.gateways:
        if gateway.amqp is None:
            continue
        url = _amqp_url(gateway.amqp) or common
        if url is None:
            raise UsageTrouble(
                f"gateway {gateway.name} has an amqp section without a URL",
                "set AMQP_URL, or url or url_file there",
            )
        found.append(_broker(gateway.amqp, url, gateway.name, gateway.instances))
    return tuple(found)


def _broker(
    given: AmqpSettings | GatewayAmqpSettings, url: str, gateway: str, instances: tuple[str, ...]
) -> AmqpConfig:
    return AmqpConfig(
        gateway=gateway,
        url=url,
        instances=given.instances or instances,
        global_exchange=given.global_exchange,
        prefix=given.prefix,
        queue=given.queue,
        prefetch=given.prefetch,
        drain_gateway_queues=given.drain_gateway_queues,
    )


def _amqp_url(given: AmqpSettings | GatewayAmqpSettings) -> str | None:
    if given.url is not None:
        return given.url.reveal()
    if not given.url_file:
        return None
    try:
        return Path(given.url_file).expanduser().read_text().strip()
    except (OSError, ValueError) as error:
        raise UsageTrouble(
            f"cannot read the RabbitMQ URL of {given.url_file}: {type(error).__name__}",
            "name a file that holds only the URL, and that this user may read",
        ) from error


def _revealed(secrets: tuple[Secret, ...]) -> tuple[str, ...]:
    return tuple(secret.reveal() for secret in secrets)


def _accounts(settings: Settings) -> dict[tuple[str, str], str]:
    accounts: dict[tuple[str, str], str] = {}
    for key, scope in settings.accounts.items():
        gateway, _, instance = key.partition("/")
        accounts[gateway, instance] = scope
    return accounts
