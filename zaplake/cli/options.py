"""What every command understands, and how it becomes settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import structlog
from cyclopts import Parameter

from zaplake import logs
from zaplake.settings import Settings
from zaplake.sources import load_settings

AsJson: TypeAlias = Annotated[bool, Parameter(name="--json")]
_log = structlog.get_logger("zaplake")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Options of all commands; each wins over the settings."""

    config: Path | None = None
    """Settings file (TOML); else ZAPLAKE_CONFIG, else ./zaplake.toml."""
    data_dir: Path | None = None
    """Folder of outbox, blobs, embedded Postgres and signing secret. [default: ./data]"""
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    """Least severe log line on stderr. [default: info]"""


def settle(common: Common | None, overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings of this command; logging is on from here."""
    common = common or Common()
    settings = load_settings(
        common.config,
        os.environ,
        {"data_dir": common.data_dir, "log.level": common.log_level, **(overrides or {})},
    )
    logs.configure(settings.log)
    if (
        settings.amqp.url is not None
        and settings.gateways
        and not any(each.amqp for each in settings.gateways)
    ):
        _log.warning("amqp.unused", reason="no gateway has [gateways.amqp]: RabbitMQ is not read")
    return settings
