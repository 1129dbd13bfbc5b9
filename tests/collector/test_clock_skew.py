"""A clock that is wrong is told: it is compared with the Date of the backend's answers to heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from collector.heartbeat import skew_s
from tests.collector.running import collector_config, eventually, running

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
DATE = "Fri, 01 May 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("asked_s", "answered_s", "skew"),
    [(0, 0, 0), (2, 3, 0), (-14, 0, 0), (62, 62, 60), (-90, -80, -80), (3600, 3610, 3598)],
)
def test_only_what_the_answers_way_cannot_explain_is_skew(
    asked_s: float, answered_s: float, skew: float
) -> None:
    asked, answered = NOW + timedelta(seconds=asked_s), NOW + timedelta(seconds=answered_s)
    assert skew_s(DATE, asked, answered) == skew


@pytest.mark.parametrize("date", [None, "", "yesterday", "Fri, 99 May 2026 12:00:00 GMT", "Fri, 01 May 2026"])
def test_a_date_that_nobody_can_read_says_nothing(date: str | None) -> None:
    assert skew_s(date, NOW, NOW) is None


@asynccontextmanager
async def clock_at(offsets: list[timedelta]) -> AsyncIterator[str]:
    """A backend that takes heartbeats and whose clock is ``offsets[0]`` off."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        date = format_datetime(datetime.now(UTC) + offsets[0], usegmt=True)
        body = b'{"scopes":[]}'
        fields = f"date: {date}\r\nconnection: close\r\ncontent-length: {len(body)}"
        writer.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_the_alert_comes_with_the_skew_and_goes_with_it(tmp_path: Path) -> None:
    offsets = [timedelta(hours=1)]
    async with (
        clock_at(offsets) as url,
        running(collector_config(tmp_path, url, heartbeat_s=0.05)) as collector,
    ):

        async def is_raised() -> bool:
            return "clock.skew" in await collector.alerts()

        async def is_over() -> bool:
            return not await is_raised()

        await eventually(is_raised, "an hour is told")
        offsets[0] = timedelta(seconds=30)
        await eventually(is_over, "half a minute is nothing")
