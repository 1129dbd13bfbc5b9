"""What the direct door needs to know besides its tokens: the same that a collector is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contracts.configured import CapturePolicy, GatewayConfig, default_gateways
from contracts.scopes import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectConfig:
    """Without settings: the four default gateways, no signatures, everything but presence captured."""

    gateways: tuple[GatewayConfig, ...] = field(default_factory=default_gateways)
    """For their families, their body signatures and Cloud API's handshake; their tokens open no door here."""
    accounts: Mapping[Source, str] = field(default_factory=dict)
    capture: CapturePolicy = field(default_factory=CapturePolicy)
    secrets: tuple[str, ...] = ()
    """Cut wherever a body holds one."""
