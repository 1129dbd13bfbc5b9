"""The webhook door over real sockets and a real SQLite store: contract §9, row by row."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import hmac
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.alerts import Alerts
from collector.capture import Capture
from collector.door import Door
from contracts.configured import CaptureFilter, CapturePolicy
from outbox.clock import ManualClock
from outbox.memory import MemoryStore
from tests.collector.running import (
    FIXTURES,
    Running,
    collector_config,
    eventually,
    fixture,
    gateway,
    limits,
    message,
    running,
)
from tests.collector.scripted import Reply, ScriptedBackend

TOKEN = "token-of-the-tests"
DROPPED_FOR_GOOD = {400, 401, 403, 404, 422} | set(range(300, 400))


@pytest.fixture
async def backend() -> AsyncIterator[ScriptedBackend]:
    async with ScriptedBackend() as scripted:
        yield scripted


@pytest.fixture
async def collector(backend: ScriptedBackend, tmp_path: Path) -> AsyncIterator[Running]:
    async with running(collector_config(tmp_path, backend.url)) as started:
        yield started


async def rows(folder: Path) -> int:
    """Records in the file, as another process would see them."""
    with sqlite3.connect(folder / "collector" / "outbox.sqlite3") as connection:
        waiting = connection.execute("SELECT count(*) FROM outbox").fetchone()[0]
        seen = connection.execute("SELECT count(*) FROM seen").fetchone()[0]
    return int(waiting) + int(seen)


async def test_an_event_is_on_disk_when_its_2xx_arrives(collector: Running, tmp_path: Path) -> None:
    answer = await collector.post("/gateways/evolution/loja-sp", message(1))
    assert answer.status_code == 200
    assert answer.json() == {"status": "stored"}
    assert await rows(tmp_path) == 1


async def test_an_event_arrives_at_the_backend_signed_and_as_it_came(
    collector: Running, backend: ScriptedBackend
) -> None:
    raw = fixture("evolution/messages.upsert-text-group.json")
    assert (await collector.post("/gateways/evolution/loja-sp", raw)).status_code == 200
    await eventually(lambda: len(backend.stored) == 1, "one event shipped")
    body = json.loads(next(iter(backend.stored.values())))
    assert body["payload"] == json.loads(raw)["data"]
    assert (body["type"], body["kind"], body["channel"]) == ("messages.upsert", "message", "webhook")
    assert (body["gateway"], body["instance"], body["scope"]) == ("evolution", "loja-sp", "evolution/loja-sp")
    assert "data" not in body["envelope"]
    assert body["envelope"]["event"] == "messages.upsert"


WAYS = [
    "/gateways/evolution/loja-sp",
    "/gateways/evolution/loja-sp/",
    "/gateways/evolution",
    "/gateways/evolution/",
    "/gateways/evolution/messages-upsert",
    "/gateways/evolution/loja-sp/messages-upsert",
    "//gateways//evolution//loja-sp",
]


async def test_every_way_of_writing_the_path_is_one_door(collector: Running) -> None:
    base = f"{collector.client.base_url}".rstrip("/")
    for path in WAYS:
        assert (await collector.client.post(base + path, content=message(1))).status_code == 200, path
    assert (await collector.totals()) == {"stored": 1, "duplicate": len(WAYS) - 1}


async def test_a_path_that_is_no_gateway_is_404_and_counted(collector: Running) -> None:
    paths = ["/", "/gateways", "/gateways/nobody/x", "/evolution/x", "/favicon.ico"]
    for path in paths:
        assert (await collector.post(path, message(1))).status_code == 404, path
    assert (await collector.totals()) == {"no_gateway": len(paths)}
    assert "door.no_gateway" in await collector.alerts(), "a gateway drops an event for good on 404"


async def test_a_path_that_contradicts_the_body_is_counted_and_the_body_wins(collector: Running) -> None:
    assert (await collector.post("/gateways/evolution/other", message(1))).status_code == 200
    assert (await collector.totals()) == {"path_mismatch": 1, "stored": 1}
    assert [row["instance"] for row in (await collector.status())["instances"]] == ["loja-sp"]


async def test_sixty_four_posts_of_one_event_are_one_record(collector: Running, tmp_path: Path) -> None:
    answers = await asyncio.gather(
        *(collector.post("/gateways/evolution/loja-sp", message(1)) for _ in range(64))
    )
    assert {answer.status_code for answer in answers} == {200}
    assert await rows(tmp_path) == 1
    assert (await collector.totals()) == {"stored": 1, "duplicate": 63}


@pytest.mark.parametrize("family", ["evolution", "waha", "cloudapi"])
async def test_every_known_body_is_taken_in_any_order_and_copies_add_nothing(
    collector: Running, family: str
) -> None:
    files = sorted((FIXTURES / family).glob("*.json"))
    stored = []
    for _ in range(2):
        answers = await asyncio.gather(
            *(collector.post(f"/gateways/{family}/loja-sp", path.read_bytes()) for path in files)
        )
        assert {answer.status_code for answer in answers} == {200}
        totals = await collector.totals()
        stored.append(totals["stored"])
    assert stored[0] == stored[1] > len(files) // 2
    assert "reader_error" not in totals


async def test_every_known_baileys_body_posted_twice_in_a_row_adds_nothing(collector: Running) -> None:
    for path in sorted((FIXTURES / "baileys").glob("*.json")):
        stored = []
        for _ in range(2):
            assert (await collector.post("/gateways/baileys/bot", path.read_bytes())).status_code == 200
            stored.append((await collector.totals()).get("stored", 0))
        assert stored[0] == stored[1], path.name
    assert "reader_error" not in await collector.totals()


async def test_what_is_no_json_travels_as_bytes(collector: Running, backend: ScriptedBackend) -> None:
    broken = b'{"event":"messages.upsert","apikey":"LIVE-KEY-123","data":{"a"'
    assert (await collector.post("/gateways/evolution/loja-sp", broken)).status_code == 200
    await eventually(lambda: len(backend.stored) == 1, "the bytes shipped")
    body = json.loads(next(iter(backend.stored.values())))
    assert body["kind"] == "unknown"
    assert body["reader_error"].startswith("not JSON")
    clean = broken.replace(b'"LIVE-KEY-123"', b"null")
    assert base64.b64decode(body["payload"]["$bytes"]) == clean
    assert body["redacted"] == ["/payload/$bytes"]


ODD_VALUES = [
    b'"\\ud83d"',
    b"NaN",
    b"1e400",
    b"9" * 5000,
    b'{"a":' * 3000 + b"1" + b"}" * 3000,
    b'"\xff\xfe"',
    b"null",
    b'"text"',
    b"7",
]


async def test_an_event_whose_name_is_odd_is_stored(collector: Running, backend: ScriptedBackend) -> None:
    bodies = [b'{"event":%s,"instance":"loja-sp","data":{}}' % value for value in ODD_VALUES]
    for body in bodies:
        assert (await collector.post("/gateways/evolution/loja-sp", body)).status_code == 200
    await eventually(lambda: len(backend.stored) == len(bodies), "all shipped")


async def test_odd_json_is_still_the_event_it_is(collector: Running, backend: ScriptedBackend) -> None:
    raw = b"""{"event":"contacts.update","instance":"loja-sp","date_time":"2026-01-01T10:00:0%d.000Z",
        "data":{"remoteJid":"5511900000001@s.whatsapp.net","x":%s}}"""
    for number, value in enumerate(ODD_VALUES):
        assert (await collector.post("/gateways/evolution/loja-sp", raw % (number, value))).status_code == 200
    await eventually(lambda: len(backend.stored) == len(ODD_VALUES), "all shipped")
    shipped = backend.bodies()
    for value in ODD_VALUES:
        assert b'"x":' + value in shipped, value[:20]
    assert set(await collector.totals()) == {"stored"}


class TestSecrets:
    """Any one credential of a gateway opens its door; a wrong one is never a status that drops the event."""

    @pytest.fixture
    async def guarded(self, backend: ScriptedBackend, tmp_path: Path) -> AsyncIterator[Running]:
        config = collector_config(
            tmp_path,
            backend.url,
            gateways=(
                *gateway(tokens=(TOKEN,), jwt_keys=("jwt-key-of-the-tests",)),
                *gateway(name="waha", family="waha", hmac_keys=("waha-key-of-the-tests",)),
                *gateway(
                    name="meta",
                    family="cloudapi",
                    app_secrets=("app-secret-of-the-tests",),
                    verify_token="verify-token-of-the-tests",
                ),
            ),
        )
        async with running(config) as started:
            yield started

    async def test_a_token_opens(self, guarded: Running) -> None:
        opened = [
            ("/gateways/evo/loja-sp", {"X-Collector-Token": TOKEN}),
            ("/gateways/evo/loja-sp", {"Authorization": f"Bearer {TOKEN}"}),
            (f"/gateways/evo/{TOKEN}/loja-sp", {}),
            (f"/gateways/evo/{TOKEN}", {}),
            (f"/gateways/evo/{TOKEN}/messages-upsert", {}),
            (f"/gateways/evo/{TOKEN}/loja-sp/messages-upsert", {}),
        ]
        for number, (path, headers) in enumerate(opened):
            assert (await guarded.post(path, message(number), **headers)).status_code == 200, path
        assert (await guarded.totals()) == {"stored": len(opened)}

    async def test_without_it_the_gateway_hears_503_and_the_operator_an_alert(
        self, guarded: Running, tmp_path: Path
    ) -> None:
        refused = [
            ("/gateways/evo/loja-sp", {}),
            ("/gateways/evo/loja-sp", {"X-Collector-Token": ""}),
            ("/gateways/evo/loja-sp", {"X-Collector-Token": TOKEN[:-1]}),
            ("/gateways/evo/loja-sp", {"X-Collector-Token": "é"}),
            ("/gateways/evo/loja-sp", {"Authorization": "Bearer"}),
            ("/gateways/evo/loja-sp", {"Authorization": "Bearer a.b.c"}),
            ("/gateways/evo/loja-sp", {"Authorization": "Basic " + TOKEN}),
            ("/gateways/evo/wrong-token/loja-sp", {}),
            ("/gateways/waha/default", {"X-Webhook-Hmac": "00"}),
            ("/gateways/meta", {"X-Hub-Signature-256": "sha256=zz"}),
        ]
        for path, headers in refused:
            encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
            answer = await guarded.client.post(path, content=message(1), headers=encoded)
            assert answer.status_code == 503, (path, headers)
        assert "door.secret" in await guarded.alerts()
        assert (await guarded.totals()) == {"door.secret": len(refused)}
        assert await rows(tmp_path) == 0

    async def test_evolution_s_jwt_lives_through_its_retries(self, guarded: Running) -> None:
        for age_s, status in ((0, 200), (1800, 200), (3600, 503)):
            token = jwt("jwt-key-of-the-tests", int(time.time()) - age_s)
            answer = await guarded.post("/gateways/evo/loja-sp", message(1), Authorization=f"Bearer {token}")
            assert answer.status_code == status, age_s

    async def test_signatures_of_the_body_open(self, guarded: Running) -> None:
        body = fixture("waha/session.status-working.json")
        signature = hmac.new(b"waha-key-of-the-tests", body, "sha512").hexdigest()
        answer = await guarded.post("/gateways/waha/default", body, **{"X-Webhook-Hmac": signature})
        assert answer.status_code == 200
        body = fixture("cloudapi/messages-text.json")
        signature = "sha256=" + hmac.new(b"app-secret-of-the-tests", body, hashlib.sha256).hexdigest()
        answer = await guarded.post("/gateways/meta", body, **{"X-Hub-Signature-256": signature})
        assert answer.status_code == 200
        answer = await guarded.post("/gateways/meta", body + b" ", **{"X-Hub-Signature-256": signature})
        assert answer.status_code == 503

    async def test_cloud_api_s_handshake(self, guarded: Running) -> None:
        query = {"hub.mode": "subscribe", "hub.challenge": "1158201444"}
        right = {**query, "hub.verify_token": "verify-token-of-the-tests"}
        answer = await guarded.client.get("/gateways/meta", params=right)
        assert (answer.status_code, answer.text) == (200, "1158201444")
        for wrong in ({**query, "hub.verify_token": "no"}, query, {}, {**right, "hub.mode": "unsubscribe"}):
            assert (await guarded.client.get("/gateways/meta", params=wrong)).status_code == 403
        assert (await guarded.client.get("/gateways/evo", params=right)).status_code == 405

    async def test_a_mistyped_url_is_503_with_an_alert(self, guarded: Running) -> None:
        answer = await guarded.post(f"/gateways/evo/{TOKEN}/loja-sp/what/else", message(1))
        assert answer.status_code == 503
        assert "door.path" in await guarded.alerts()


def jwt(key: str, issued_at: int) -> str:
    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {"iat": issued_at, "exp": issued_at + 600, "app": "evolution", "action": "webhook"}
    signed = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}"
    signature = hmac.new(key.encode(), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


class TestBodies:
    """Compressed, large and slow bodies."""

    @pytest.fixture
    async def small(self, backend: ScriptedBackend, tmp_path: Path) -> AsyncIterator[Running]:
        bounds = limits(body_bytes_max=400_000, bodies_in_flight_bytes_max=500_000)
        async with running(collector_config(tmp_path, backend.url, limits=bounds)) as started:
            yield started

    async def test_gzip_is_read(self, small: Running) -> None:
        packed = gzip.compress(message(1))
        answer = await small.post("/gateways/evolution/x", packed, **{"Content-Encoding": "gzip"})
        assert answer.status_code == 200
        assert (await small.totals())["stored"] == 1

    async def test_a_bomb_is_413_and_an_unknown_encoding_503(self, small: Running) -> None:
        bomb = gzip.compress(b" " * 100_000_000)
        answer = await small.post("/gateways/evolution/x", bomb, **{"Content-Encoding": "gzip"})
        assert answer.status_code == 413
        answer = await small.post("/gateways/evolution/x", b"{}", **{"Content-Encoding": "br"})
        assert answer.status_code == 503
        assert {"door.too_large", "door.encoding"} <= await small.alerts()

    @pytest.mark.parametrize("chunked", [False, True])
    async def test_above_the_limit_is_answered_413_and_not_reset(self, small: Running, chunked: bool) -> None:
        async def stream() -> AsyncIterator[bytes]:
            for _ in range(41):
                yield b" " * 10_000

        content = stream() if chunked else b" " * 400_001
        answer = await small.client.post("/gateways/evolution/x", content=content)
        assert answer.status_code == 413
        assert answer.json()["type"] == "urn:zaplake:problem:body-too-large"
        assert "door.too_large" in await small.alerts()
        assert (await small.post("/gateways/evolution/x", message(1))).status_code == 200

    async def test_a_heavy_body_is_translated_beside_the_others(self, small: Running) -> None:
        heavy = message(1, padding="x" * 300_000)
        answers = await asyncio.gather(
            small.post("/gateways/evolution/x", heavy), small.post("/gateways/evolution/x", message(2))
        )
        assert [answer.status_code for answer in answers] == [200, 200]
        assert (await small.totals())["stored"] == 2

    async def test_bodies_in_flight_are_bounded_in_total(self, small: Running) -> None:
        port = small.client.base_url.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /gateways/evolution/x HTTP/1.1\r\nhost: x\r\ncontent-length: 390000\r\n\r\n")
        writer.write(b" " * 380_000)
        await writer.drain()

        async def refused() -> bool:
            return (await small.post("/gateways/evolution/x", b" " * 200_000)).status_code == 503

        await eventually(refused, "the second body refused while the first is in flight")
        writer.close()

        async def taken() -> bool:
            return (await small.post("/gateways/evolution/x", message(1))).status_code == 200

        await eventually(taken, "room again after the client left")
        del reader

    async def test_a_client_that_leaves_midway_leaves_nothing(self, small: Running, tmp_path: Path) -> None:
        port = small.client.base_url.port
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /gateways/evolution/x HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
            await writer.drain()
            writer.close()
        assert (await small.post("/gateways/evolution/x", message(1))).status_code == 200
        assert await rows(tmp_path) == 1


async def test_signals_and_denied_facts_are_2xx_counted_and_no_row(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    policy = CapturePolicy(deny=CaptureFilter(kinds=frozenset({"call"})))
    async with running(collector_config(tmp_path, backend.url, capture=policy)) as collector:
        for name in ("presence.update-composing", "call-offer", "chats.update"):
            body = fixture(f"evolution/{name}.json")
            assert (await collector.post("/gateways/evolution/loja-sp", body)).status_code == 200
        assert (await collector.totals()) == {"signal": 1, "denied": 1, "empty": 1}
        assert await rows(tmp_path) == 0


async def test_health_and_status(collector: Running) -> None:
    answer = await collector.client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    status = (await collector.client.get("/status")).json()
    assert status["outbox"]["waiting"] == 0
    assert status["name"] == "collector"


names = st.sampled_from(["loja-sp", "messages-upsert", "a b", "é", "...", "%2F", "x" * 300, ""])
known_names = st.sampled_from(["event", "data", "instance", "key", "id", "message", "remoteJid", "payload"])
values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(known_names | st.text(), inner),
)
bodies = st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(names, max_size=4), bodies, st.sampled_from(["evolution", "baileys", "waha", "cloudapi"]))
async def test_nothing_a_gateway_posts_gets_an_answer_that_drops_it(
    shared: httpx.AsyncClient, rest: list[str], body: bytes, family: str
) -> None:
    path = "/".join(["/gateways", family, *(quote(name, safe="") for name in rest)])
    answer = await shared.post(path, content=body)
    assert answer.status_code not in DROPPED_FOR_GOOD


@pytest.fixture
async def shared(collector: Running) -> httpx.AsyncClient:
    return collector.client


async def test_a_late_backend_never_slows_the_door(backend: ScriptedBackend, tmp_path: Path) -> None:
    backend.script = lambda _request: Reply(503)
    async with running(collector_config(tmp_path, backend.url)) as collector:
        for number in range(30):
            answer = await collector.post("/gateways/evolution/loja-sp", message(number))
            assert answer.status_code == 200
            assert answer.elapsed.total_seconds() < 2
        assert (await collector.outbox())["waiting"] == 30


async def test_without_a_configured_secret_the_door_is_open_to_this_machine_only(tmp_path: Path) -> None:
    clock, store = ManualClock(), MemoryStore()
    config = collector_config(tmp_path, "http://127.0.0.1:9")
    alerts = Alerts(now=clock.now, kept_max=10)
    capture = Capture(store=store, config=config, alerts=alerts, now=clock.now, on_put=lambda: None)

    async def status() -> dict[str, object]:
        return {}

    async def metrics() -> bytes:
        return b""

    door = Door(capture=capture, config=config, alerts=alerts, status=status, metrics=metrics, now=clock.now)
    for peer, answers in (("10.0.0.5", [503, 404, 404, 200]), ("127.0.0.1", [200, 200, 200, 200])):
        transport = httpx.ASGITransport(app=door, client=(peer, 4242))
        async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
            posted = await client.post("/gateways/evolution/loja-sp", content=message(1))
            asked = [await client.get(path) for path in ("/status", "/metrics", "/healthz")]
        assert [answer.status_code for answer in (posted, *asked)] == answers, peer
    assert [(alert["alert"], alert["subject"]) for alert in alerts.active()] == [
        ("door.no_secret", "evolution")
    ]
    assert capture.tally.totals == {"door.no_secret": 1, "no_gateway": 2, "stored": 1}
