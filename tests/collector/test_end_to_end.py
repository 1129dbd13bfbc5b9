"""Every known Evolution body through the real collector and backend into Postgres, and a heartbeat."""

from __future__ import annotations

import asyncio
from pathlib import Path

from collector.config import CollectorConfig
from tests.collector.running import FIXTURES, eventually, running
from tests.ingest.backend import SECRET, backend


async def test_what_the_collector_acknowledged_is_in_the_lake_once(dsn: str, tmp_path: Path) -> None:
    files = sorted((FIXTURES / "evolution").glob("*.json"))
    async with backend(dsn) as there:
        config = CollectorConfig(
            backend_url=f"http://127.0.0.1:{there.port}",
            secrets=(SECRET,),
            data_folder=tmp_path / "collector",
            port=0,
            heartbeat_s=0.2,
        )
        async with running(config) as collector:
            for _ in range(2):
                answers = await asyncio.gather(
                    *(collector.post("/gateways/evolution/loja-sp", path.read_bytes()) for path in files)
                )
                assert {answer.status_code for answer in answers} == {200}

            async def shipped() -> bool:
                return (await collector.outbox())["waiting"] == 0

            await eventually(shipped, "everything shipped")
            assert (await collector.outbox())["dead"] == 0
            stored = (await collector.totals())["stored"]
            rows = await there.events()
            assert len(rows) == len({row["event_id"] for row in rows}) == stored
            assert {row["collector"] for row in rows} == {"collector"}
            assert {row["channel"] for row in rows} == {"webhook"}

            async def told() -> bool:
                reports = await there.fetch("SELECT report FROM lake.collectors WHERE name = 'collector'")
                return bool(reports) and '"loja-sp"' in str(reports[0]["report"])

            await eventually(told, "the backend knows the collector and its instance")
