"""A body is parted into its events at a cost that grows with the body, whatever its members are called."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

from collector.config import CapturePolicy, Family, GatewayConfig
from collector.translate import Arrival, Rules, Translation, translate
from contracts.jsontext import decode

NOW = datetime(2026, 11, 29, tzinfo=UTC)
RULES = Rules(policy=CapturePolicy(), scope_of="/".join, secrets=())


def translated(family: Family, raw: bytes) -> Translation:
    gateway = GatewayConfig(name=family, family=family)
    arrival = Arrival(raw=raw, gateway=gateway, path_instance="x", channel="webhook", captured_at=NOW)
    return translate(arrival, RULES)


def history(count: int) -> bytes:
    messages = [
        {
            "key": {"remoteJid": "5511900000002@s.whatsapp.net", "id": f"H{n}"},
            "message": {"conversation": "oi"},
        }
        for n in range(count)
    ]
    return json.dumps(
        {"event": "messaging-history.set", "data": {"messages": messages, "syncType": 2}}
    ).encode()


def changes(count: int) -> bytes:
    listed = [
        {
            "field": "messages",
            "value": {
                "metadata": {"phone_number_id": "1"},
                "messages": [{"id": f"wamid.{n}", "type": "text", "text": {"body": "oi"}}],
            },
        }
        for n in range(count)
    ]
    return json.dumps(
        {"object": "whatsapp_business_account", "entry": [{"id": "2", "changes": listed}]}
    ).encode()


def test_a_large_history_and_a_large_batch_are_parted_in_one_walk() -> None:
    begun = time.thread_time()
    assert len(translated("baileys", history(6_000)).captured) == 6_000
    assert len(translated("cloudapi", changes(4_000)).captured) == 4_000
    # One walk a body takes about a second, one walk an event more than half a minute.
    assert time.thread_time() - begun < 10


def test_names_of_context_members_may_be_anything_that_json_can_write() -> None:
    odd = '"a\\"b":1,"\\ud800":2,"c\\u0000\\\\":3'
    bodies: dict[Family, str] = {
        "baileys": '{"event":"messaging-history.set","data":{"messages":[{"key":{"id":"A"},'
        f'"message":{{"conversation":"oi"}}}}],{odd}}}}}',
        "cloudapi": '{"object":"w","entry":[{"id":"1","changes":[{"field":"messages","value":'
        f'{{"messages":[{{"id":"wamid.1","type":"text","text":{{"body":"oi"}}}}],{odd}}}}}]}}]}}',
    }
    for family, body in bodies.items():
        (captured,) = translated(family, body.encode()).captured
        wire = decode(captured.record.body)
        assert isinstance(wire, dict)
        assert wire["kind"] == "message"
        assert wire["envelope"].items() >= {'a"b': 1, "\ud800": 2, "c\u0000\\": 3}.items()
