"""One event by a collector and by the direct door at the same instant is one row of the lake."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.collector.running import collector_config, eventually, running
from tests.ingest.backend import SECRET, backend
from tests.ingest.gateways import direct_to, evolution, text

COPIES = 20
EVENTS = 5


async def test_twenty_copies_by_two_doors_are_one_row(dsn: str, tmp_path: Path) -> None:
    async with backend(dsn) as b:
        config = collector_config(tmp_path, f"http://127.0.0.1:{b.port}", secrets=(SECRET,))
        direct = await direct_to(b, "evolution")
        async with running(config) as collector:
            for number in range(EVENTS):
                body = evolution("messages.upsert", text(number))
                posts = [
                    direct.post(body) if copy % 2 else collector.post("/gateways/evolution/loja", body)
                    for copy in range(COPIES)
                ]
                assert {answer.status_code for answer in await asyncio.gather(*posts)} == {200}

            async def shipped() -> bool:
                return (await collector.outbox())["waiting"] == 0

            await eventually(shipped, "everything shipped")
            assert await b.count() == EVENTS
            assert {row["scope"] for row in await b.events()} == {"evolution/loja"}
            assert await b.fetch("SELECT 1 FROM lake.conflicts") == []
