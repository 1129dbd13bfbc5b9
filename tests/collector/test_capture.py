"""From a body to the store: scopes that stay, unknown instances, storms, stamps, and a store in trouble."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.alerts import Alerts
from collector.capture import Capture
from collector.config import CollectorConfig
from contracts import translation
from contracts.configured import CaptureFilter, CapturePolicy, GatewayConfig
from contracts.events import Reading
from outbox.clock import ManualClock
from outbox.memory import MemoryStore
from outbox.metering import MeteredStore
from outbox.record import NewRecord, PutResult
from outbox.sqlite import open_sqlite
from outbox.store import Store, StoreUnavailable
from tests.collector.running import collector_config, fixture, gateway, message, running
from tests.support.arriving import take_webhook


class Bench:
    """A capture on a real SQLite file, with a clock moved by hand."""

    def __init__(self, config: CollectorConfig, store: Store, clock: ManualClock) -> None:
        self.config, self.store, self.clock = config, store, clock
        self.alerts = Alerts(now=clock.now, kept_max=100)
        self.wakes = 0
        self.capture = Capture(
            store=store, config=config, alerts=self.alerts, now=clock.now, on_put=self._woken
        )

    def _woken(self) -> None:
        self.wakes += 1

    async def post(
        self, raw: bytes, name: str = "evolution", path_instance: str | None = "loja-sp"
    ) -> Counter[str]:
        now = self.clock.now()
        return await take_webhook(self.capture, raw, gateway=name, path_instance=path_instance, at=now)

    async def bodies(self) -> list[dict[str, Any]]:
        records = await self.store.claim(now=self.clock.now(), limit=10_000, bytes_max=2**40)
        await self.store.release(records)
        return [json.loads(record.body) for record in records]

    def active(self) -> set[tuple[object, object]]:
        return {(alert["alert"], alert["subject"]) for alert in self.alerts.active()}


@pytest.fixture
async def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    opened = await open_sqlite(tmp_path / "collector", clock)
    yield opened
    await opened.close()


async def bench(tmp_path: Path, store: Store, clock: ManualClock, **changes: object) -> Bench:
    made = Bench(collector_config(tmp_path, "http://127.0.0.1:9", **changes), store, clock)
    await made.capture.open()
    return made


async def test_an_instance_keeps_its_first_scope_and_a_later_mapping_is_an_alert(
    tmp_path: Path, store: Store, clock: ManualClock
) -> None:
    first = await bench(tmp_path, store, clock)
    await first.post(message(1))
    mapped = await bench(tmp_path, store, clock, accounts={("evolution", "loja-sp"): "loja"})
    assert mapped.active() == {("scope.changed", "evolution/loja-sp")}
    await mapped.post(message(2))
    await mapped.post(message(3, instance="nova"))
    served = await bench(tmp_path, store, clock)
    await served.capture.apply_accounts({("evolution", "loja-sp"): "loja"})
    assert served.active() == {("scope.changed", "evolution/loja-sp")}
    await served.capture.apply_accounts({})
    assert served.active() == set(), "the mapping was taken back"
    assert [body["scope"] for body in await mapped.bodies()] == [
        "evolution/loja-sp",
        "evolution/loja-sp",
        "evolution/nova",
    ]


async def test_two_gateways_of_one_account_share_rows_and_others_never(
    tmp_path: Path, store: Store, clock: ManualClock
) -> None:
    accounts = {("evolution", "loja-sp"): "loja", ("evo2", "loja-sp"): "loja"}
    gateways = tuple(GatewayConfig(name=name, family="evolution") for name in ("evolution", "evo2", "evo3"))
    made = await bench(tmp_path, store, clock, gateways=gateways, accounts=accounts)
    assert (await made.post(message(1), "evolution"))["stored"] == 1
    assert (await made.post(message(1), "evo2"))["duplicate"] == 1
    assert (await made.post(message(1), "evo3"))["stored"] == 1


async def test_the_served_table_maps_what_is_new_and_the_own_configuration_wins(
    tmp_path: Path, store: Store, clock: ManualClock
) -> None:
    made = await bench(tmp_path, store, clock, accounts={("evolution", "a"): "mine"})
    await made.capture.apply_accounts({("evolution", "a"): "theirs", ("evolution", "b"): "theirs"})
    await made.post(message(1, instance="a"))
    await made.post(message(2, instance="b"))
    assert [body["scope"] for body in await made.bodies()] == ["mine", "theirs"]
    again = await bench(tmp_path, store, clock, accounts={("evolution", "a"): "mine"})
    assert again.capture.scopes.mapped[("evolution", "b")] == "theirs"


async def test_an_unknown_instance_is_stored_with_one_alert_when_instances_are_configured(
    tmp_path: Path, store: Store, clock: ManualClock
) -> None:
    made = await bench(tmp_path, store, clock, gateways=gateway(instances=("loja-sp",)))
    for number, instance in enumerate(["loja-sp", "rogue", "rogue"]):
        assert (await made.post(message(number, instance=instance), "evo"))["stored"] == 1
    assert made.active() == {("instance.unknown", "evo/rogue")}
    silent = await bench(tmp_path, store, clock)
    await silent.capture.apply_accounts({("evolution", "served"): "evolution/served"})
    await silent.post(message(9, instance="anything"))
    assert silent.active() == set()


async def test_a_number_of_a_cloud_body_has_its_own_scope(
    tmp_path: Path, store: Store, clock: ManualClock
) -> None:
    made = await bench(tmp_path, store, clock)
    await made.post(fixture("cloudapi/messages-text.json"), "cloudapi", None)
    body = (await made.bodies())[0]
    assert body["scope"] == f"cloudapi/{body['instance']}"
    assert body["envelope"]


async def test_a_body_of_several_numbers_is_counted_for_each(
    tmp_path: Path, store: Store, clock: ManualClock
) -> None:
    policy = CapturePolicy(deny=CaptureFilter(instances=frozenset({"cloudapi/3"})))
    made = await bench(tmp_path, store, clock, capture=policy)
    body = json.loads(fixture("cloudapi/batch-two-entries.json"))
    for number, template in ((2, body["entry"][1]), (3, body["entry"][1])):
        entry = json.loads(json.dumps(template))
        entry["changes"][0]["value"]["metadata"]["phone_number_id"] = str(number)
        body["entry"].append(entry)
    raw = json.dumps(body).encode()
    first = body["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"]
    assert await made.post(raw, "cloudapi", None) == {"stored": 4, "denied": 1}
    assert await made.post(raw, "cloudapi", None) == {"duplicate": 4, "denied": 1}
    rows = {instance: counts for (_, _, instance, _), counts in made.capture.tally.rows.items()}
    assert rows == {
        first: {"stored": 3, "duplicate": 3},
        "2": {"stored": 1, "duplicate": 1},
        "3": {"denied": 2},
    }
    assert made.capture.tally.totals == {"stored": 4, "duplicate": 4, "denied": 2}


def connection(state: str, number: int) -> bytes:
    return json.dumps(
        {
            "event": "connection.update",
            "instance": "loja-sp",
            "data": {"instance": "loja-sp", "state": state, "statusReason": 200},
            "date_time": f"2026-01-01T10:00:{number // 1000:02d}.{number % 1000:03d}Z",
        }
    ).encode()


async def test_a_storm_of_equal_connection_events_becomes_ten_rows_the_last_and_a_count(
    tmp_path: Path, store: Store, clock: ManualClock
) -> None:
    made = await bench(tmp_path, store, clock)
    for number in range(100):
        await made.post(connection("connecting", number * 45))
        clock.advance(0.045)
    assert made.capture.tally.totals == {"stored": 10, "collapsed": 90}
    assert (await store.stats()).held == 1
    await made.capture.release_storms()
    assert (await store.stats()).held == 1, "it is not over"
    clock.advance(11)
    await made.capture.release_storms()
    bodies = await made.bodies()
    assert len(bodies) == 11
    assert bodies[-1]["envelope"]["date_time"] == "2026-01-01T10:00:04.455Z", "the last of the storm"


async def test_news_after_a_storm_follow_its_last_event_and_a_restart_loses_nothing(
    tmp_path: Path, store: Store, clock: ManualClock
) -> None:
    made = await bench(tmp_path, store, clock)
    for number in range(30):
        await made.post(connection("connecting", number))
    await made.post(connection("open", 40))
    states = [body["payload"]["state"] for body in await made.bodies()]
    assert states == ["connecting"] * 11 + ["open"]
    for number in range(50, 80):
        await made.post(connection("connecting", number))
    assert (await store.stats()).held == 1
    await bench(tmp_path, store, clock)
    assert (await store.stats()).held == 0
    assert len(await made.bodies()) == 12 + 11


async def test_a_raw_baileys_stream_is_stamped_and_suppressed(
    tmp_path: Path, store: Store, clock: ManualClock
) -> None:
    made = await bench(tmp_path, store, clock)

    def push(state: str) -> bytes:
        return json.dumps({"event": "connection.update", "data": {"connection": state}}).encode()

    counts = [await made.post(push(state), "baileys", "bot") for state in ("open", "open", "close", "open")]
    assert counts == [{"stored": 1}, {"suppressed": 1}, {"stored": 1}, {"stored": 1}]


async def test_a_reader_that_fails_loses_nothing_and_writes_no_key(
    tmp_path: Path, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(body: object, *, path_instance: str | None = None) -> Reading:
        raise RuntimeError("a fault with 5511900000001 in its text")

    monkeypatch.setattr(translation, "READERS", {"evolution": broken})
    made = await bench(tmp_path, store, clock)
    assert await made.post(message(1, apikey="LIVE-KEY-123")) == {"reader_error": 1, "stored": 1}
    body = (await made.bodies())[0]
    assert (body["kind"], body["type"]) == ("unknown", "messages.upsert")
    assert body["reader_error"] == "reader failed: RuntimeError"
    assert "LIVE-KEY-123" not in json.dumps(body)


class FailingStore(MemoryStore):
    """A store of its own that is full, or slow, when told."""

    full = False
    gate: asyncio.Event | None = None

    async def put(self, records: Sequence[NewRecord]) -> list[PutResult]:
        if self.full:
            raise StoreUnavailable("disk full")
        if self.gate is not None:
            await self.gate.wait()
        return await super().put(records)


async def test_a_full_disk_is_503_with_an_alert_and_heals(tmp_path: Path) -> None:
    failing = FailingStore()

    async def open_store() -> MeteredStore:
        return failing

    (tmp_path / "collector").mkdir()
    async with running(collector_config(tmp_path, "http://127.0.0.1:9"), open_store) as collector:
        failing.full = True
        assert (await collector.post("/gateways/evolution/x", message(1))).status_code == 503
        assert "door.failed" in await collector.alerts()
        failing.full = False
        assert (await collector.post("/gateways/evolution/x", message(1))).status_code == 200
        failing.gate = asyncio.Event()
        waiting = asyncio.create_task(collector.post("/gateways/evolution/x", message(2)))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done, "answered before the commit"
        failing.gate.set()
        assert (await waiting).status_code == 200
