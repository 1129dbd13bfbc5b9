"""Takes a body into a capture as a gateway's webhook does, without a door."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from collector.capture import Capture
from contracts.translation import Arrival


async def take_webhook(
    capture: Capture, raw: bytes, *, gateway: str, path_instance: str | None, at: datetime
) -> Counter[str]:
    """What became of it."""
    configured = capture.gateway(gateway)
    assert configured is not None, gateway
    arrival = Arrival(
        raw=raw,
        gateway=configured,
        path_instance=path_instance,
        channel="webhook",
        captured_at=at,
    )
    return await capture.take(arrival)
