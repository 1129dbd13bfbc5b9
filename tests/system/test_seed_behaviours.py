"""The nine behaviours that the first plan asked for, with real collector, backend and Postgres."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from collector.config import CollectorConfig
from contracts.identity import event_id
from outbox.metering import MeteredStore
from outbox.record import NewRecord
from outbox.sqlite import open_sqlite
from outbox.store import Store
from tests.collector.running import Running, eventually, fixture, running
from tests.ingest.backend import SECRET, Backend, backend
from tests.ingest.proxy import Proxy, proxy_to
from tests.system.relay import LosingRelay, losing_relay

DOOR = "/gateways/baileys/bot"
CHAT = "120363000000000010@g.us"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The whole way of an event."""

    collector: Running
    backend: Backend
    relay: LosingRelay
    database: Proxy
    store: Store

    async def post(self, body: bytes) -> None:
        """A gateway's event that the collector acknowledged."""
        answer = await self.collector.post(DOOR, body)
        assert answer.status_code == 200

    async def settled(self) -> None:
        """Returns when nothing waits in the outbox."""

        async def empty() -> bool:
            return (await self.collector.outbox())["waiting"] == 0

        await eventually(empty, "the outbox is empty")


@asynccontextmanager
async def whole(dsn: str, folder: Path, secret: bytes = SECRET) -> AsyncIterator[Way]:
    """Collector → relay → backend → proxy → Postgres."""
    async with AsyncExitStack() as stack:
        short = Path(stack.enter_context(TemporaryDirectory(prefix="zl")))
        database = await stack.enter_async_context(proxy_to(dsn, short))
        there = await stack.enter_async_context(backend(dsn, database=database.dsn))
        relay = await stack.enter_async_context(losing_relay(there.port))
        config = CollectorConfig(
            backend_url=relay.url, secrets=(secret,), data_folder=folder / "collector", port=0
        )
        store = await open_sqlite(config.data_folder)

        async def opened() -> MeteredStore:
            return store

        collector = await stack.enter_async_context(running(config, opened))
        yield Way(collector=collector, backend=there, relay=relay, database=database, store=store)


@pytest.fixture
async def way(dsn: str, tmp_path: Path) -> AsyncIterator[Way]:
    async with whole(dsn, tmp_path) as opened:
        yield opened


async def test_re_emit_of_a_known_message_in_a_reconnection_append_adds_no_row(way: Way) -> None:
    await way.post(fixture("baileys/messages.upsert-notify-group-v7.json"))
    await way.settled()
    await way.post(fixture("baileys/messages.upsert-append-offline-replay-v7.json"))
    assert (await way.collector.totals()) == {"stored": 1, "duplicate": 1}, "ignored at the origin"
    assert (await way.collector.outbox())["waiting"] == 0, "it does not even reach the network"
    assert await way.backend.count() == 1


async def test_http_retry_after_a_lost_answer_creates_no_duplicate(way: Way) -> None:
    way.relay.to_lose = 1
    await way.post(fixture("baileys/messages.upsert-notify-group-v7.json"))
    await way.settled()
    assert way.relay.lost == 1
    assert await way.backend.count() == 1


def reaction(own_id: str, text: str, sender_ms: int) -> bytes:
    target = {"remoteJid": CHAT, "fromMe": False, "id": "3EB0TARGET", "participant": "100000000000003@lid"}
    own = {"remoteJid": CHAT, "fromMe": False, "id": own_id, "participant": "100000000000004@lid"}
    content = {"key": own, "text": text, "senderTimestampMs": sender_ms}
    return json.dumps({"event": "messages.reaction", "data": [{"key": target, "reaction": content}]}).encode()


async def test_a_changed_reaction_is_a_new_row_and_the_timeline_is_complete(way: Way) -> None:
    await way.post(reaction("3EB0R1", "😂", 1764950400001))
    await way.post(reaction("3EB0R1", "😂", 1764950400777))
    await way.post(reaction("3EB0R2", "☕", 1764950410000))
    await way.settled()
    rows = sorted(await way.backend.events(), key=lambda row: row["occurred_at"])
    assert [row["payload"]["reaction"]["text"] for row in rows] == ["😂", "☕"], "whichever came first"
    assert len({row["event_id"] for row in rows}) == 2


async def test_ingest_is_synchronous_a_2xx_means_persisted_and_a_lost_database_loses_nothing(
    way: Way,
) -> None:
    body = fixture("baileys/messages.upsert-notify-group-v7.json")
    await way.database.close()
    await way.post(body)

    async def refused() -> bool:
        shipper = (await way.collector.status())["shipper"]
        assert isinstance(shipper, dict)
        return bool(shipper["last_verdict"] == "retry")

    await eventually(refused, "the backend said 5xx")
    assert (await way.collector.outbox())["waiting"] == 1, "the collector keeps it"
    assert await way.backend.count() == 0
    await way.database.open()
    await way.settled()
    assert await way.backend.count() == 1
    direct = str(uuid.uuid4())
    answer = await way.backend.post(direct, b'{"type":"t","chat_jid":null,"payload":{"a":1}}')
    assert answer.status_code == 201
    assert (await way.backend.last_event())["event_id"] == direct, "there when the 2xx is"


async def test_a_poison_payload_is_sanitized_stored_and_answered_2xx(way: Way) -> None:
    poison = fixture("baileys/messages.upsert-notify-group-v7.json").replace(
        "Reunião às 15h?".encode(), b"a\\u0000b\\ud83d \xff \\\\u0000"
    )
    await way.post(poison)
    await way.settled()
    await way.post(poison)
    await way.settled()
    (row,) = await way.backend.events()
    text = row["payload"]["message"]["conversation"]
    assert text.startswith("ab\ufffd ")
    assert text.endswith(" \\u0000"), "an escaped backslash is no NUL"
    assert row["sanitized"]
    assert (await way.collector.outbox())["dead"] == 0


async def test_what_the_backend_refuses_with_422_becomes_a_dead_letter_and_the_queue_goes_on(
    way: Way,
) -> None:
    refused = event_id("baileys/bot", "message", ("shapeless",))
    await way.store.put([NewRecord(id=refused, body=b'{"chat_jid":null,"payload":{}}', label="no type")])
    await way.post(fixture("baileys/messages.upsert-notify-group-v7.json"))
    await way.settled()
    assert await way.backend.count() == 1
    (letter,) = await way.store.dead_show(refused)
    assert (letter.status, letter.body) == (422, b'{"chat_jid":null,"payload":{}}')
    assert "outbox.dead" in await way.collector.alerts()


async def test_a_secret_out_of_step_keeps_every_item_and_raises_an_alert(dsn: str, tmp_path: Path) -> None:
    async with whole(dsn, tmp_path, secret=b"another-secret-than-the-backend") as way:
        await way.post(fixture("baileys/messages.upsert-notify-group-v7.json"))
        await way.post(fixture("baileys/group.member-tag.update.json"))

        async def alerted() -> bool:
            return "shipper.halted" in await way.collector.alerts()

        await eventually(alerted, "the alert")
        outbox = await way.collector.outbox()
        assert (outbox["waiting"], outbox["dead"]) == (2, 0), "nothing is thrown away"
        assert await way.backend.count() == 0


async def test_a_member_tag_whose_jid_is_in_group_id_is_not_lost(way: Way) -> None:
    await way.post(fixture("baileys/group.member-tag.update.json"))
    await way.settled()
    (row,) = await way.backend.events()
    assert (row["type"], row["chat_jid"]) == ("group.member-tag.update", CHAT)
    assert row["payload"]["label"] == "mentora"


async def test_rows_with_random_ids_from_before_live_beside_deterministic_ones(way: Way) -> None:
    old = str(uuid.uuid4())
    payload = json.loads(fixture("baileys/messages.upsert-notify-group-v7.json"))["data"]["messages"][0]
    body = json.dumps({"type": "messages.upsert", "chat_jid": CHAT, "payload": payload}).encode()
    assert (await way.backend.post(old, body)).status_code == 201
    await way.post(fixture("baileys/messages.upsert-notify-group-v7.json"))
    await way.settled()
    rows = await way.backend.fetch(
        "SELECT event_id, type, chat_jid, received_at, payload FROM lake.whatsapp_event_logs ORDER BY seq"
    )
    assert [uuid.UUID(str(row["event_id"])).version for row in rows] == [4, 5]
    assert (await way.backend.post(old, body)).json()["status"] == "duplicate"
    assert await way.backend.count() == 2
