"""The direct door on real sockets: what comes in, what it becomes, and that nothing is half done."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from contracts.configured import CaptureFilter, CapturePolicy, GatewayConfig
from contracts.envelope import PROBLEM_TOO_LARGE
from ingest.direct.config import DirectConfig
from tests.ingest.backend import Backend, an_id, backend, event
from tests.ingest.gateways import CHAT, Direct, baileys, direct_to, evolution, text
from tests.support.postgres import PgServer, fresh_database

pytestmark = pytest.mark.asyncio(loop_scope="module")

STORED = {"status": "stored", "stored": 1, "duplicate": 0, "counted": {}}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def b(pg_server: PgServer, migrated_template: str) -> AsyncIterator[Backend]:
    """One backend for the tests that need no settings of their own."""
    async with fresh_database(pg_server, migrated_template) as dsn, backend(dsn) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def evo(b: Backend) -> Direct:
    return await direct_to(b, "evolution")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def bot(b: Backend) -> Direct:
    return await direct_to(b, "bot", "baileys")


async def test_an_event_is_stored_once_under_the_name_of_this_door(evo: Direct) -> None:
    body = evolution("messages.upsert", text(1), channel="webhook", gateway="other", scope="forged")
    first, second = await evo.post(body), await evo.post(body)
    assert (first.status_code, first.json()) == (200, STORED)
    assert (second.status_code, second.json()) == (
        200,
        {"status": "duplicate", "stored": 0, "duplicate": 1, "counted": {}},
    )
    row = await evo.backend.last_event()
    names = ("channel", "collector", "gateway", "instance", "scope", "kind", "type", "chat_jid")
    assert [row[name] for name in names] == [
        "direct", None, "evolution", "loja", "evolution/loja", "message", "messages.upsert", CHAT,
    ]  # fmt: skip
    assert row["payload"] == text(1)
    assert row["captured_at"] is not None
    assert len(row["digest"]) == 16
    envelope = json.loads(row["envelope"])
    assert envelope["channel"] == "webhook"
    assert "data" not in envelope


async def test_another_content_under_one_id_is_kept_as_a_conflict(evo: Direct) -> None:
    assert (await evo.post(evolution("messages.upsert", text(2)))).json() == STORED
    answer = await evo.post(evolution("messages.upsert", text(2, "outra coisa")))
    assert answer.json()["status"] == "duplicate"
    (conflict,) = await evo.backend.fetch("SELECT payload, seen_count FROM lake.conflicts")
    assert json.loads(conflict["payload"]) == text(2, "outra coisa")


async def test_many_facts_of_a_body_are_committed_together(evo: Direct) -> None:
    body = evolution("messages.set", {"messages": [text(n) for n in range(100, 150)]})
    assert (await evo.post(body)).json()["stored"] == 50
    assert (await evo.post(body)).json()["duplicate"] == 50


async def test_more_facts_than_a_batch_has_lines_are_answered_after_the_last(dsn: str) -> None:
    async with backend(dsn, batch_lines_max=7) as b:
        evo = await direct_to(b, "evolution")
        body = evolution("messages.set", {"messages": [text(n) for n in range(30)]})
        assert (await evo.post(body)).json()["stored"] == 30
        assert await b.count() == 30


@pytest.mark.parametrize(
    ("family", "status"), [("evolution", 503), ("baileys", 422)], ids=["evolution", "baileys"]
)
async def test_a_fact_that_postgres_refuses_is_never_answered_2xx(dsn: str, family: str, status: int) -> None:
    async with backend(dsn) as b:
        await b.fetch("""
            CREATE FUNCTION lake.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF NEW.payload::text LIKE '%recusada%' THEN RAISE EXCEPTION 'no'; END IF;
                RETURN NEW;
            END $$
        """)
        await b.fetch("""
            CREATE TRIGGER refuse BEFORE INSERT ON lake.whatsapp_event_logs
            FOR EACH ROW EXECUTE FUNCTION lake.refuse()
        """)
        messages = [text(1), text(2, "recusada"), text(3)]
        gate = await direct_to(b, "x", "evolution" if family == "evolution" else "baileys")
        if family == "evolution":
            body = evolution("messages.set", {"messages": messages})
        else:
            body = baileys("messages.upsert", {"messages": messages, "type": "notify"})
        answer = await gate.post(body)
        assert answer.status_code == status
        assert answer.json()["type"] == "urn:zaplake:problem:refused-by-database"
        await b.fetch("DROP TRIGGER refuse ON lake.whatsapp_event_logs")
        assert (await gate.post(body)).json()["status"] == "stored"
        assert await b.count() == 3


async def test_a_bot_is_asked_for_a_stamp_where_a_fact_has_no_id(bot: Direct) -> None:
    before = await bot.backend.count()
    change = {"connection": "open"}
    for stamp in ({}, {"at": "2026-01-01T10:00:00Z"}, {"seq": 1}):
        answer = await bot.post(baileys("connection.update", change, **stamp), "/loja")
        assert answer.status_code == 422
        assert answer.json()["type"] == "urn:zaplake:problem:unstamped"
        assert "seq" in answer.json()["detail"]
    assert (await bot.post(b'{"odd": 1}', "/loja")).status_code == 422
    assert await bot.backend.count() == before
    stamped = {"at": "2026-01-01T10:00:00Z", "seq": 1}
    assert (await bot.post(baileys("connection.update", change, **stamped), "/loja")).json() == STORED
    again = await bot.post(baileys("connection.update", change, **stamped), "/loja")
    assert again.json()["status"] == "duplicate"
    later = {"at": "2026-01-01T10:00:00Z", "seq": 2}
    assert (await bot.post(baileys("connection.update", change, **later), "/loja")).json() == STORED
    row = await bot.backend.last_event()
    assert (row["instance"], row["scope"]) == ("loja", "bot/loja")


async def test_a_message_of_a_bot_needs_no_stamp(bot: Direct) -> None:
    body = baileys("messages.upsert", {"messages": [text(900)], "type": "notify"})
    assert (await bot.post(body, "/loja")).json() == STORED


async def test_a_gateway_without_its_stamp_loses_nothing(evo: Direct) -> None:
    """It cannot be asked: the content tells, so that its retries are one row."""
    body = evolution("connection.update", {"instance": "loja", "state": "open"}, date_time=None)
    assert (await evo.post(body)).json() == STORED
    assert (await evo.post(body)).json()["status"] == "duplicate"
    other = evolution("connection.update", {"instance": "loja", "state": "close"}, date_time=None)
    assert (await evo.post(other)).json() == STORED


async def test_what_is_no_json_and_what_is_of_no_known_shape_is_kept(evo: Direct, bot: Direct) -> None:
    for gate in (evo, bot):
        answer = await gate.post(b"\xff\xfe no json")
        assert answer.json()["counted"] == {"reader_error": 1}
        row = await gate.backend.last_event()
        assert (row["kind"], row["payload"]) == ("unknown", {"$bytes": "//4gbm8ganNvbg=="})
        assert row["reader_error"].startswith("not JSON")
        assert (await gate.post(b"\xff\xfe no json")).json()["status"] == "duplicate"
    assert (await evo.post(evolution("brand.new", {"x": [1, None]}))).json() == STORED
    assert (await evo.backend.last_event())["kind"] == "unknown"


async def test_text_that_jsonb_cannot_hold_is_repaired_as_at_the_other_doors(evo: Direct) -> None:
    body = evolution("messages.upsert", text(77)).replace(b'"oi"', b'"a\\u0000b\\ud800"')
    assert (await evo.post(body)).json() == STORED
    row = await evo.backend.last_event()
    assert row["payload"]["message"]["conversation"] == "ab\ufffd"
    assert row["sanitized"] == ["/payload/message/conversation"]


async def test_what_makes_no_row_is_2xx_and_counted(dsn: str) -> None:
    policy = CapturePolicy(deny=CaptureFilter(kinds=frozenset({"call"})))
    async with backend(dsn, direct=DirectConfig(capture=policy)) as b:
        evo = await direct_to(b, "evolution")
        told = {
            "signal": evolution(
                "presence.update", {"id": CHAT, "presences": {CHAT: {"lastKnownPresence": "composing"}}}
            ),
            "denied": evolution("call", {"id": "C1", "from": CHAT, "status": "offer"}),
            "empty": evolution("chats.update", []),
        }
        for reason, body in told.items():
            answer = await evo.post(body)
            assert (answer.status_code, answer.json()["status"]) == (200, "counted")
            assert answer.json()["counted"] == {reason: 1}
        assert await b.count() == 0
        page = (await b.client.get("/metrics")).text
        for reason in told:
            assert f'zaplake_ingest_direct_facts_total{{gateway="evolution",outcome="{reason}"}} 1.0' in page


async def test_the_scope_is_the_one_that_the_instance_keeps(dsn: str) -> None:
    direct = DirectConfig(accounts={("evolution", "loja"): "conta", ("evolution", "filial"): "conta-2"})
    async with backend(dsn, direct=direct) as b:
        evo = await direct_to(b, "evolution")
        kept = event(gateway="evolution", instance="loja", scope="de-antes")
        assert (await b.post(an_id(), kept)).status_code == 201
        for number in (1, 2):
            assert (await evo.post(evolution("messages.upsert", text(number)))).json() == STORED
            assert (await b.last_event())["scope"] == "de-antes"
        other = evolution("messages.upsert", text(3), instance="filial")
        assert (await evo.post(other)).json() == STORED
        assert (await b.last_event())["scope"] == "conta-2"
        await b.service.desk.look_once()
        (alert,) = await b.fetch("SELECT name, subject FROM lake.alerts")
        assert (alert["name"], alert["subject"]) == ("scope.changed", "evolution/loja")


async def test_the_body_names_the_instance_before_the_path_does(evo: Direct) -> None:
    answer = await evo.post(evolution("messages.upsert", text(31)), "/other/messages-upsert")
    assert answer.json() == {**STORED, "counted": {"path_mismatch": 1}}
    assert (await evo.backend.last_event())["instance"] == "loja"
    answer = await evo.post(evolution("messages.upsert", text(32), instance=None), "/filial/messages-upsert/")
    assert answer.json() == STORED
    assert (await evo.backend.last_event())["instance"] == "filial"


@pytest.mark.parametrize("encoding", ["gzip", "identity", ""])
async def test_a_compressed_body_is_inflated_and_a_damaged_one_kept(bot: Direct, encoding: str) -> None:
    body = baileys("messages.upsert", {"messages": [text(2000 + len(encoding))], "type": "notify"})
    packed = gzip.compress(body) if encoding == "gzip" else body
    assert (await bot.post(packed, **{"Content-Encoding": encoding})).json() == STORED
    assert (await bot.post(packed[:-9], **{"Content-Encoding": encoding})).json()["status"] == "stored"
    assert (await bot.backend.last_event())["payload"].keys() == {"$bytes"}
    assert bot.backend.service.doors.budget.bytes_used == 0


async def test_an_encoding_that_nobody_knows_is_415(bot: Direct, evo: Direct) -> None:
    for gate in (bot, evo):  # Evolution sends again after 415
        assert (await gate.post(b"{}", **{"Content-Encoding": "br"})).status_code == 415


async def test_a_body_above_the_limit_is_413_and_too_many_bytes_are_503(dsn: str) -> None:
    async with backend(dsn, body_bytes_max=300_000, bodies_bytes_max=400_000) as b:
        evo = await direct_to(b, "evolution")
        for body, headers in (
            (b"x" * 300_001, {}),
            (gzip.compress(b" " * 300_001), {"Content-Encoding": "gzip"}),
        ):
            answer = await evo.post(body, **headers)
            assert (answer.status_code, answer.json()["type"]) == (413, PROBLEM_TOO_LARGE)
        large = evolution("messages.upsert", text(1, "x" * 290_000))
        b.service.doors.budget.take(200_000)
        answer = await evo.post(large)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        b.service.doors.budget.give(200_000)
        assert (await evo.post(large)).json() == STORED
        assert b.service.doors.budget.bytes_used == 0


async def test_a_gateway_above_the_rate_is_429_and_is_let_in_later(dsn: str) -> None:
    async with backend(dsn, rate_events_per_s=5.0, rate_burst=2) as b:
        evo = await direct_to(b, "evolution")
        bodies = [evolution("messages.upsert", text(n)) for n in range(6)]
        answers = [await evo.post(body) for body in bodies]
        assert {answer.status_code for answer in answers} == {200, 429}
        assert all(int(a.headers["retry-after"]) > 0 for a in answers if a.status_code == 429)
        async with asyncio.timeout(20):
            for body in bodies:
                while (await evo.post(body)).status_code != 200:
                    await asyncio.sleep(0.05)
        assert await b.count() == 6


async def test_heavy_bodies_at_once_are_all_taken(dsn: str) -> None:
    async with backend(dsn, direct_threads_max=1) as b:
        evo = await direct_to(b, "evolution")
        bodies = [evolution("messages.upsert", text(n, "x" * 300_000)) for n in range(6)]
        answers = await asyncio.gather(*(evo.post(body) for body in bodies))
        assert [answer.json() for answer in answers] == [STORED] * 6


async def test_a_path_that_leads_nowhere(b: Backend, bot: Direct, evo: Direct) -> None:
    body = evolution("messages.upsert", text(1))
    assert (await b.client.post("/api/gateways/", content=body)).status_code == 404
    assert (await b.client.post("/api/gateways", content=body)).status_code == 404
    assert (await bot.post(body, "/loja/more")).status_code == 404
    assert (await evo.post(body, "/loja/more")).status_code == 503
    assert (await b.client.put("/api/gateways/evolution", content=body)).status_code == 405
    assert (await b.client.get("/api/gateways/evolution")).status_code == 405


async def test_a_stopping_backend_takes_nothing(dsn: str) -> None:
    async with backend(dsn) as b:
        evo = await direct_to(b, "evolution")
        await b.service.drain()
        assert (await evo.post(evolution("messages.upsert", text(1)))).status_code == 503
        assert await b.count() == 0


APP_SECRET, VERIFY_TOKEN = "um-segredo-inventado", "outro-inventado"
CLOUD = GatewayConfig(name="cloud", family="cloudapi", app_secrets=(APP_SECRET,), verify_token=VERIFY_TOKEN)


async def test_the_handshake_of_the_cloud_api(dsn: str) -> None:
    async with backend(dsn, direct=DirectConfig(gateways=(CLOUD,))) as b:
        query = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": VERIFY_TOKEN}
        answer = await b.client.get("/api/gateways/cloud", params=query)
        assert (answer.status_code, answer.text) == (200, "1158201444")
        assert answer.headers["content-type"].startswith("text/plain")
        for wrong in ({"hub.verify_token": "x"}, {"hub.mode": "x"}, {"hub.challenge": "1" * 2000}):
            assert (await b.client.get("/api/gateways/cloud", params=query | wrong)).status_code == 403
        assert (await b.client.get("/api/gateways/evolution", params=query)).status_code == 405
