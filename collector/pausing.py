"""A pause that an event ends."""

from __future__ import annotations

import asyncio
import contextlib


async def pause(event: asyncio.Event, seconds_max: float) -> None:
    """Returns when the event is set, else after ``seconds_max``."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds_max):
            await event.wait()
