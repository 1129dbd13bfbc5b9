"""The golden rows through the real capture and its SQLite file: repeated, in any order, and as a stream."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from collector.alerts import Alerts
from collector.capture import Capture
from collector.config import CollectorConfig
from contracts.jsontext import decode
from outbox.clock import ManualClock
from outbox.record import Record
from outbox.sqlite import SqliteStore, open_sqlite
from tests.golden.table import HERE, TABLES, Entry, load_secrets, load_table
from tests.support.arriving import take_webhook

STAMPED = ("evolution", "recordings", "waha", "cloudapi")
BAILEYS_CASES = HERE.parent / "contracts" / "gateways" / "fixtures" / "baileys"
SKIPPED_IN_ORDER = {"baileys: chat 120363000000000010@g.us messaging-history.set-recent"}
"""Says of a chat no more than the file before it, as long as its counters are no part of it."""


@dataclass(slots=True, kw_only=True)
class Lake:
    """A capture on a store of its own, and what it keeps."""

    store: SqliteStore
    capture: Capture
    clock: ManualClock

    async def post(self, entry: Entry, path_instance: str | None = None) -> Counter[str]:
        return await self.post_body(entry.body, entry.family, path_instance or entry.path_instance)

    async def post_body(self, raw: bytes, family: str, path_instance: str | None) -> Counter[str]:
        self.clock.advance(1)
        now = self.clock.now()
        return await take_webhook(self.capture, raw, gateway=family, path_instance=path_instance, at=now)

    async def records(self) -> list[Record]:
        """All that waits, oldest first; it waits again afterwards."""
        found: list[Record] = []
        while some := await self.store.claim(now=self.clock.now(), limit=1000, bytes_max=64 << 20):
            found += some
        await self.store.release(found)
        return found

    async def rows(self) -> dict[str, str]:
        """Id and kind of each row that the lake would hold."""
        return {record.id: _kind(record.body) for record in await self.records()}


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    config = CollectorConfig(
        backend_url="http://127.0.0.1:1", secrets=(b"segredo-inventado",), data_folder=tmp_path / "outbox"
    )
    clock = ManualClock()
    store = await open_sqlite(config.data_folder, clock)
    alerts = Alerts(now=clock.now, kept_max=10)
    capture = Capture(store=store, config=config, alerts=alerts, now=clock.now, on_put=lambda: None)
    await capture.open()
    try:
        yield Lake(store=store, capture=capture, clock=clock)
    finally:
        capture.close()
        await store.close()


def _kind(body: bytes) -> str:
    wire = decode(body)
    assert isinstance(wire, dict)
    return str(wire["kind"])


def kinds_of(entries: Sequence[Entry]) -> Counter[str]:
    """How many rows of each kind the table asks for, a shared row once."""
    return Counter(kind for kind, _ in {(row.kind, row.label) for entry in entries for row in entry.rows})


@pytest.mark.parametrize("table", TABLES)
async def test_each_body_twice_in_a_row_gives_its_rows(lake: Lake, table: str) -> None:
    before: dict[str, str] = {}
    labels: set[str] = set()
    for number, entry in enumerate(load_table(table)):
        instance = f"loja-{number}" if table == "baileys" else None
        for _ in range(2):
            counts = await lake.post(entry, instance)
            assert +counts & Counter(entry.counted) == Counter(entry.counted), entry.name
        after = await lake.rows()
        fresh = [row for row in entry.rows if instance or row.label not in labels]
        new = Counter(kind for identity, kind in after.items() if identity not in before)
        assert new == Counter(row.kind for row in fresh), entry.name
        labels |= {row.label for row in fresh}
        before = after


@pytest.mark.parametrize("seed", range(4))
async def test_the_whole_set_twice_in_any_order_gives_the_rows(lake: Lake, seed: int) -> None:
    entries = list(load_table(*STAMPED))
    posts = entries * 2
    random.Random(seed).shuffle(posts)
    await asyncio.gather(*(lake.post(entry) for entry in posts))
    assert Counter((await lake.rows()).values()) == kinds_of(entries)


async def test_a_set_is_the_same_rows_in_another_order(lake: Lake) -> None:
    entries = list(load_table(*STAMPED))
    await asyncio.gather(*(lake.post(entry) for entry in entries))
    forwards = set(await lake.rows())
    counts = [await lake.post(entry) for entry in reversed(entries)]
    assert set(await lake.rows()) == forwards
    assert sum(count["stored"] for count in counts) == 0


async def test_baileys_in_the_order_of_the_files_is_one_stream(lake: Lake) -> None:
    entries = load_table("baileys")
    for entry in entries:
        for _ in range(2):
            await lake.post(entry)
    asked = {row.label: row.kind for entry in entries for row in entry.rows}
    kept = Counter(kind for label, kind in asked.items() if label not in SKIPPED_IN_ORDER)
    assert asked.keys() > SKIPPED_IN_ORDER
    assert Counter((await lake.rows()).values()) == kept


async def test_the_recorded_baileys_cases_hold_their_rows(lake: Lake) -> None:
    cases = json.loads((BAILEYS_CASES / "index.json").read_bytes())["cases"]
    assert len(cases) == 56
    before: dict[str, str] = {}
    for name, case in cases.items():
        for path in sorted((BAILEYS_CASES / name).glob("*.json")):
            await lake.post_body(path.read_bytes(), "baileys", name.replace("/", "-"))
        after = await lake.rows()
        kinds = Counter(kind for identity, kind in after.items() if identity not in before)
        assert case["min"] <= kinds.total() <= case["max"], (name, kinds)
        for kind, count in case.get("by_kind", {}).items():
            assert kinds[kind] == count, (name, kinds)
        before = after


@pytest.mark.parametrize("table", TABLES)
async def test_no_secret_reaches_the_outbox(lake: Lake, tmp_path: Path, table: str) -> None:
    for entry in load_table(table):
        await lake.post(entry)
    await lake.store.checkpoint()
    files = b"".join(path.read_bytes() for path in (tmp_path / "outbox").iterdir() if path.is_file())
    assert all(identity.encode() in files for identity in await lake.rows())
    assert [secret for secret in load_secrets(table) if secret.encode() in files] == []
