"""The recorded Baileys cases through capture and store: each holds its rows, and its secrets are nowhere."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from collector.alerts import Alerts
from collector.capture import Capture
from outbox.clock import ManualClock
from outbox.sqlite import open_sqlite
from tests.collector.running import collector_config
from tests.support.arriving import take_webhook

FOLDER = Path(__file__).parent.parent / "contracts" / "gateways" / "fixtures" / "baileys"
INDEX = json.loads((FOLDER / "index.json").read_text())["cases"]


@pytest.mark.parametrize("case", sorted(INDEX))
async def test_case(case: str, tmp_path: Path) -> None:
    clock = ManualClock()
    store = await open_sqlite(tmp_path, clock)
    try:
        config = collector_config(tmp_path, "http://127.0.0.1:9")
        alerts = Alerts(now=clock.now, kept_max=10)
        capture = Capture(store=store, config=config, alerts=alerts, now=clock.now, on_put=lambda: None)
        for name in INDEX[case]["files"]:
            raw = (FOLDER / case / name).read_bytes()
            await take_webhook(capture, raw, gateway="baileys", path_instance="bot", at=clock.now())
            clock.advance(60)
        records = await store.claim(now=clock.now(), limit=10_000, bytes_max=2**40)
    finally:
        await store.close()
    # The same id with other content ships twice and is one row (contract §4, a second copy).
    facts = {record.id: json.loads(record.body)["kind"] for record in records}
    kinds = Counter(facts.values())
    wanted = INDEX[case]
    assert wanted["min"] <= kinds.total() <= wanted["max"], kinds
    for kind, rows in wanted.get("by_kind", {}).items():
        assert kinds[kind] == rows, kinds
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    for secret in wanted.get("must_not_contain", []):
        assert secret.encode() not in written
