"""What an operator can set about the process that runs rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from ingest.inbox.config import InboxConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkSettings:
    """The process that runs the inbox's rules; its door has health and metrics."""

    host: Annotated[str, Meta(description="Address of the door of `zaplake work`.")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="Port of the door of `zaplake work`; 0 takes a free one.")
    ] = 8001
    consumers: Annotated[
        tuple[str, ...], Meta(description="Consumers that run here (`--consumers`); unset is all.")
    ] = ()
    metrics_open: Annotated[
        bool, Meta(description="Serve `/metrics` to all who reach that door, not only to this machine.")
    ] = False
    limits: InboxConfig = field(default_factory=lambda: InboxConfig(dsn=""))
