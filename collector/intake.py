"""A large body on its way in: its media go to files while it is read, the rest stays in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, ParamSpec, TypeVar

from asgi.body import BodyTooLarge
from collector.config import Limits
from collector.spool import Spooled
from contracts.signing import BodyMacs

STEP_BYTES: Final = 1024 * 1024
"""So much of a body is gathered before a thread works on it: the loop goes on answering others."""

P = ParamSpec("P")
R = TypeVar("R")


class Intake:
    """Takes the chunks of one body. In memory at once: its text, and twice a step."""

    def __init__(self, *, limits: Limits, spooled: Spooled, threads: Executor, macs: BodyMacs | None) -> None:
        """``macs`` are told every byte, where the body's signature opens the door."""
        self._limits, self._spooled, self._threads, self._macs = limits, spooled, threads, macs
        self._step_bytes = min(STEP_BYTES, limits.bodies_in_flight_bytes_max // 4)
        self._chunks: list[bytes] = []
        self._chunk_bytes = 0
        self._text: list[bytes] = []
        self._text_bytes = 0
        self._is_cut = False

    async def add(self, chunk: bytes) -> None:
        """Raises BodyTooLarge when the body's text is, BudgetExhausted, and what the disk makes fail."""
        self._spooled.take_memory(len(chunk))
        self._chunks.append(chunk)
        self._chunk_bytes += len(chunk)
        if self._chunk_bytes >= self._step_bytes:
            await self._step()

    async def finish(self) -> bytes:
        """Return the skeleton; the cuts are complete. Raises as ``add`` does."""
        if not self._is_cut and self._chunk_bytes < self._limits.media_chars_min:
            if self._macs is not None:
                self._macs.update(b"".join(self._chunks))
            return b"".join(self._chunks)
        await self._step()
        await self._keep(await in_thread(self._threads, self._spooled.finish), 0)
        text, self._text = self._text, []
        return b"".join(text)

    def drop(self) -> None:
        """Forget the body, files and all."""
        self._chunks.clear()
        self._text.clear()
        self._spooled.close()

    async def _step(self) -> None:
        data, size = b"".join(self._chunks), self._chunk_bytes
        self._chunks.clear()
        self._chunk_bytes = 0
        self._is_cut = True
        self._spooled.take_disk(size)
        await self._keep(await in_thread(self._threads, self._feed, data), size)

    async def _keep(self, text: bytes, size: int) -> None:
        """Count what is left of ``size`` bytes: in memory the text, on the disk the rest."""
        self._spooled.take_memory(len(text) - size)
        self._spooled.take_disk(max(-size, -len(text)))
        self._text.append(text)
        self._text_bytes += len(text)
        if self._text_bytes > self._limits.body_bytes_max:
            raise BodyTooLarge

    def _feed(self, data: bytes) -> bytes:
        if self._macs is not None:
            self._macs.update(data)
        return self._spooled.feed(data)


async def in_thread(threads: Executor, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run it in one of the threads. Who is cancelled meanwhile waits for its end: nothing works on behind."""
    done = asyncio.get_running_loop().run_in_executor(threads, lambda: work(*args, **kwargs))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        raise
