"""The golden bodies through the direct door are the rows a collector makes of them, with the same ids."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from collector.alerts import Alerts
from collector.capture import Capture
from collector.config import CollectorConfig
from contracts.jsontext import decode
from contracts.translation import Arrival
from outbox.clock import ManualClock
from outbox.sqlite import open_sqlite
from tests.golden.table import TABLES, Entry, load_secrets, load_table
from tests.ingest.backend import backend
from tests.ingest.gateways import Direct, direct_to


def stamped(entry: Entry, number: int) -> bytes:
    """The body; a bot's says when and which it is, as the direct door asks it to."""
    if entry.family != "baileys":
        return entry.body
    body = json.loads(entry.body)
    return json.dumps({**body, "at": "2026-01-01T10:00:00Z", "seq": number}).encode()


async def ids_of_a_collector(entries: list[Entry], folder: Path) -> dict[str, str]:
    """Id and kind of each record that a collector makes of the bodies."""
    config = CollectorConfig(
        backend_url="http://127.0.0.1:1", secrets=(b"segredo-inventado",), data_folder=folder / "outbox"
    )
    clock = ManualClock()
    store = await open_sqlite(config.data_folder, clock)
    alerts = Alerts(now=clock.now, kept_max=10)
    capture = Capture(store=store, config=config, alerts=alerts, now=clock.now, on_put=lambda: None)
    try:
        await capture.open()
        for number, entry in enumerate(entries):
            gateway = capture.gateway(entry.family)
            assert gateway is not None
            arrival = Arrival(
                raw=stamped(entry, number),
                gateway=gateway,
                path_instance=entry.path_instance,
                channel="webhook",
                captured_at=clock.now(),
            )
            await capture.take_all([arrival])
        found: dict[str, str] = {}
        while records := await store.claim(now=clock.now(), limit=1000, bytes_max=64 << 20):
            for record in records:
                wire = decode(record.body)
                assert isinstance(wire, dict)
                found[record.id] = str(wire["kind"])
        return found
    finally:
        capture.close()
        await store.close()


async def post_all(gate: Direct, entries: list[Entry]) -> int:
    """Posts all bodies at once; how many facts were new."""

    async def post(number: int, entry: Entry) -> int:
        below = "" if entry.path_instance is None else f"/{entry.path_instance}"
        answer = await gate.post(stamped(entry, number), below)
        assert answer.status_code == 200, (entry.name, answer.text)
        for reason in entry.counted:
            assert answer.json()["counted"][reason] > 0, entry.name
        return int(answer.json()["stored"])

    return sum(await asyncio.gather(*map(post, range(len(entries)), entries)))


@pytest.mark.parametrize("table", TABLES)
async def test_the_ids_are_those_of_a_collector_and_a_second_time_they_are_duplicates(
    dsn: str, tmp_path: Path, table: str
) -> None:
    entries = list(load_table(table))
    expected = await ids_of_a_collector(entries, tmp_path)
    async with backend(dsn) as b:
        gate = await direct_to(b, entries[0].family)
        assert await post_all(gate, entries) == len(expected) > 10
        rows = await b.events()
        assert {row["event_id"]: row["kind"] for row in rows} == expected
        assert {row["channel"] for row in rows} == {"direct"}
        assert {row["collector"] for row in rows} == {None}
        told = [
            row["told"] for row in await b.fetch("SELECT t::text AS told FROM lake.whatsapp_event_logs t")
        ]
        assert [secret for secret in load_secrets(table) if any(secret in row for row in told)] == []
        assert await post_all(gate, entries) == 0
        assert await b.count() == len(expected)
