"""Keys of the account or of the gateway at places where no known body has them: none reaches a record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from collector.translate import Captured, translate
from contracts import translation
from contracts.configured import CapturePolicy, Family, GatewayConfig
from contracts.events import Reading
from contracts.jsontext import decode
from contracts.translation import Arrival, Rules

SECRET = "segredo-inventado"
CHAT = "5511900000002@s.whatsapp.net"
SHARE = {"protocolMessage": {"type": 6, "appStateSyncKeyShare": {"keys": [SECRET]}}}
HISTORY = {"protocolMessage": {"type": 5, "historySyncNotification": {"mediaKey": SECRET, "progress": 1}}}
SENT = {"deviceSentMessage": {"message": {"ephemeralMessage": {"message": SHARE}}}}


def captured(family: Family, body: object, secrets: tuple[str, ...] = ()) -> tuple[Captured, ...]:
    arrival = Arrival(
        raw=json.dumps(body).encode(),
        gateway=GatewayConfig(name=family, family=family),
        path_instance="x",
        channel="webhook",
        captured_at=datetime(2026, 11, 29, tzinfo=UTC),
    )
    rules = Rules(policy=CapturePolicy(), scope_of="/".join, secrets=secrets)
    return translate(arrival, rules).captured


def evolution(event: str, data: object, **envelope: object) -> tuple[Family, object]:
    when = "2025-12-05T13:00:00.123Z"
    return "evolution", {"event": event, "instance": "loja", "date_time": when, "data": data, **envelope}


def waha(event: str, payload: object) -> tuple[Family, object]:
    return "waha", {"id": "evt_1", "event": event, "session": "default", "payload": payload}


def engine(event: str, data: object) -> tuple[Family, object]:
    return waha("engine.event", {"event": event, "data": data})


def element(message: object) -> dict[str, object]:
    return {"key": {"id": "A", "remoteJid": CHAT, "fromMe": True}, "message": message, "messageTimestamp": 1}


def of_messages() -> Iterator[tuple[Family, object]]:
    for message in (SHARE, HISTORY, SENT):
        copy = {"_data": element(message), "id": "false_5511900000002@c.us_A", "timestamp": 1764950400}
        yield waha("message.any", copy)
        yield waha("message.waiting", copy)
        yield waha("message.edited", {**copy, "editedMessageId": "B"})
        yield waha("message.revoked", {"revokedMessageId": "B", "after": copy, "before": copy})
        yield engine("messages.upsert", {"messages": [element(message)]})
        yield engine("messages.update", [{"key": {"id": "A"}, "update": {"message": message}}])
        yield engine("chats.update", [{"id": CHAT, "messages": [{"message": element(message)}]}])
        yield evolution("messages.edited", message)
        yield evolution("brand.new", {"list": [element(message)]})
        yield "baileys", {"messages.upsert": {"messages": [element(message)], "type": "notify"}}


OTHERS: tuple[tuple[Family, object], ...] = (
    engine("events.QR", {"Codes": [SECRET]}),
    engine("gows.qr", [SECRET]),
    engine("connection.update", {"connection": "connecting", "qr": SECRET}),
    waha("session.status", {"name": "default", "status": "SCAN_QR_CODE", "qr": SECRET}),
    waha("brand.new", {"deep": [{"qr": SECRET}], "x": 1}),
    ("baileys", {"creds.update": {"noiseKey": SECRET}, "connection.update": {"qr": SECRET}}),
    ("baileys", {"event": "batch", "data": {"creds.update": {"noiseKey": SECRET}}}),
    ("baileys", [{"creds.update": {"noiseKey": SECRET}}]),
    ("baileys", {"events": {"creds.update": {"noiseKey": SECRET}}}),
    ("evolution", [{"apikey": SECRET}]),
    evolution("status.instance", {"status": "closed", "apikey": SECRET}),
    evolution("contacts.update", [{"remoteJid": CHAT, "pushName": "Ana", "api_key": SECRET}]),
    evolution("instance.create", {"instanceName": "loja", "hash": {"apikey": SECRET}}),
    evolution("instance.create", {"instance": {"instanceName": "loja", "token": SECRET}}),
    evolution("typebot.start", {"remoteJid": CHAT, "prefilledVariables": {"apiKey": SECRET}}),
    # Evolution keeps its global key among the parameters of a session that it tells of.
    evolution("typebot.change-status", {"remoteJid": CHAT, "session": {"parameters": {"apiKey": SECRET}}}),
)


@pytest.mark.parametrize(("family", "body"), [*of_messages(), *OTHERS])
def test_no_secret_reaches_a_record(family: Family, body: object) -> None:
    facts = captured(family, body)
    assert facts
    for fact in facts:
        wire = decode(fact.record.body)
        assert isinstance(wire, dict)
        assert SECRET.encode() not in fact.record.body
        assert wire["redacted"]
        assert "reader_error" not in wire


def test_what_people_wrote_stays_in_a_body_of_unknown_shape() -> None:
    said = {"conversation": f"qr: {SECRET}", "imageMessage": {"mediaKey": SECRET, "qr": SECRET}}
    (fact,) = captured(*evolution("brand.new", {"list": [element(said)], "text": SECRET}))
    assert fact.record.body.count(SECRET.encode()) == 4


def test_a_hostile_unknown_body_is_looked_through_in_bounded_time() -> None:
    wide: object = {f"k{n}": [{"creds": n}] for n in range(50_000)}
    for _ in range(40):
        wide = {"x": wide}
    assert len(captured(*evolution("brand.new", wide))) == 1


@pytest.mark.parametrize("segment", ["tok/en um", "tok%2Fen%20um"])
def test_a_secret_in_the_url_that_evolution_repeats_is_cut_and_another_url_stays(segment: str) -> None:
    for event, data in (("messages.upsert", element({"conversation": "oi"})), ("brand.new", [1])):
        url = f"http://127.0.0.1:8080/gateways/evolution/{segment}/loja"
        (fact,) = captured(*evolution(event, data, destination=url), secrets=("tok/en um",))
        wire = decode(fact.record.body)
        assert isinstance(wire, dict)
        assert wire["envelope"]["destination"] is None
        assert wire["redacted"] == ["/envelope/destination"]
        (same,) = captured(*evolution(event, data, destination=url), secrets=("another secret",))
        assert segment.encode() in same.record.body
        assert same.record.id == fact.record.id


def test_it_is_cut_from_a_body_that_no_reader_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_body: object, *, path_instance: str | None = None) -> Reading:
        raise RuntimeError(path_instance)

    monkeypatch.setattr(translation, "READERS", {"evolution": broken})
    (fact,) = captured(*evolution("x", {}, destination=f"http://zaplake/{SECRET}"), secrets=(SECRET,))
    assert SECRET.encode() not in fact.record.body
