"""Loads a file of events, one JSON object a line; the same file loaded again adds nothing.

A line is ``{"gateway", "instance", "event", "data", "at"?, "seq"?}``. With ``at`` and ``seq`` a fact without
an id of its own has one id wherever it comes from. Without them it is told by its place in the file's
content: the sha256 of the line and its number among equal lines; so a file that only grows can be loaded
again and again. Such facts are never suppressed: a second load would compare them with other neighbours.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from collector.capture import Capture
from collector.config import Limits
from contracts.jsontext import NotJson, decode
from contracts.translation import Arrival

DEFAULT_GATEWAY: Final = "baileys"
BAD_LINES_TOLD_MAX: Final = 100
DISTINCT_LINES_MAX: Final = 200_000
"""Of so many lines the copies are counted in memory; then a new section of the file begins."""
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that was not loaded. ``number`` counts from 1."""

    number: int
    reason: str


@dataclass(slots=True, kw_only=True)
class LoadReport:
    """How far a load is, or how it ended."""

    file_bytes: int
    bytes_read: int = 0
    lines: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    bad_lines: int = 0
    bad: list[BadLine] = field(default_factory=list)
    """The first hundred."""

    def refuse(self, number: int, reason: str) -> None:
        """Counts a bad line, and keeps the first ones."""
        self.bad_lines += 1
        if len(self.bad) < BAD_LINES_TOLD_MAX:
            self.bad.append(BadLine(number=number, reason=reason))


class _Places:
    """Gives each line its place among the equal lines of its file, in bounded memory."""

    def __init__(self) -> None:
        self._section = 0
        self._copies: dict[bytes, int] = {}

    def of(self, line: bytes) -> tuple[str | int, ...]:
        digest = hashlib.sha256(line).digest()
        copy = self._copies.get(digest, 0)
        if copy == 0 and len(self._copies) >= DISTINCT_LINES_MAX:
            self._copies.clear()
            self._section += 1
        self._copies[digest] = copy + 1
        return ("file", digest.hex(), self._section, copy)


async def load(
    path: Path,
    capture: Capture,
    *,
    limits: Limits,
    now: Callable[[], datetime],
    on_progress: Callable[[LoadReport], Awaitable[None]],
) -> LoadReport:
    """Puts every good line, in bounded batches; ``on_progress`` hears of each batch.

    Raises OSError when the file cannot be read, and what the store raises; what was loaded stays loaded, and
    loading again adds only the rest.
    """
    with await asyncio.to_thread(path.open, "rb") as file:
        size = await asyncio.to_thread(lambda: path.stat().st_size)
        report = LoadReport(file_bytes=size)
        places = _Places()
        lines = _lines(file, limits.line_bytes_max, report)
        while batch := await asyncio.to_thread(_next_batch, lines, limits):
            arrivals = []
            for number, line in batch:
                arrival = _arrival(line, number, capture, places, now(), report)
                if arrival is not None:
                    arrivals.append(arrival)
            if arrivals:
                report.counts.update(await capture.take_all(arrivals))
            await on_progress(report)
    return report


def _lines(file: BinaryIO, bytes_max: int, report: LoadReport) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, without blank ones; a line above the limit is reported and skipped."""
    number = 0
    while line := file.readline(bytes_max + 1):
        number += 1
        report.lines = number
        report.bytes_read += len(line)
        if len(line) > bytes_max and not line.endswith(b"\n"):
            report.refuse(number, f"longer than {bytes_max} bytes")
            while line and not line.endswith(b"\n"):
                line = file.readline(bytes_max)
                report.bytes_read += len(line)
            continue
        text = line.removeprefix(_BOM).strip() if number == 1 else line.strip()
        if text:
            yield number, text


def _next_batch(lines: Iterator[tuple[int, bytes]], limits: Limits) -> list[tuple[int, bytes]]:
    batch: list[tuple[int, bytes]] = []
    size = 0
    for number, line in lines:
        batch.append((number, line))
        size += len(line)
        if len(batch) >= limits.load_lines_max or size >= limits.load_bytes_max:
            break
    return batch


def _arrival(
    line: bytes, number: int, capture: Capture, places: _Places, now: datetime, report: LoadReport
) -> Arrival | None:
    try:
        body = decode(line)
    except NotJson as error:
        report.refuse(number, f"not JSON: {error}"[:200])
        return None
    if not isinstance(body, dict):
        report.refuse(number, "not a JSON object")
        return None
    name = body.get("gateway", DEFAULT_GATEWAY)
    gateway = capture.gateway(name) if isinstance(name, str) else None
    if gateway is None:
        report.refuse(number, "gateway: no configured gateway of that name")
        return None
    instance = body.get("instance")
    if instance is not None and not isinstance(instance, str):
        report.refuse(number, "instance: not a string")
        return None
    return Arrival(
        raw=line,
        gateway=gateway,
        path_instance=instance,
        channel="jsonl",
        captured_at=now,
        occurrence=places.of(line),
    )
