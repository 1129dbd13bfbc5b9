"""Pure readers: what a gateway's body says, as events. One reader a family, total over every JSON value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from contracts.events import Reading
from contracts.gateways import baileys, cloudapi, evolution, waha


class Reader(Protocol):
    """Reads one decoded body; ``path_instance`` is the instance that the door's path names."""

    def __call__(self, body: object, *, path_instance: str | None = None) -> Reading: ...


READERS: Final[Mapping[str, Reader]] = {
    "evolution": evolution.read,
    "baileys": baileys.read,
    "waha": waha.read,
    "cloudapi": cloudapi.read,
}
"""Readers by gateway family."""
