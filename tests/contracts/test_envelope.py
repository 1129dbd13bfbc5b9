"""The wire: payload and envelope travel byte for byte, everything the backend would refuse is fit before."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.envelope import (
    CHAT_JID_CHARS_MAX,
    TYPE_CHARS_MAX,
    UNKNOWN_TYPE,
    Receipt,
    WireEvent,
    encode_event,
    wrap_payload,
)

RAW = [
    b'{ "n":1.0, "big":12345678901234567890.10, "n":2 }',
    b"[1e400,\n2]",
    b'{"t":"\\u00e7\\ud83d"}',
    b'{"x":"\xff"}',
]


@pytest.mark.parametrize("raw", RAW)
def test_payload_and_envelope_are_copied_byte_for_byte(raw: bytes) -> None:
    body = encode_event(type="messages.upsert", chat_jid=None, payload=raw, envelope=raw)
    assert body == (
        b'{"type":"messages.upsert","chat_jid":null,"payload":' + raw + b',"envelope":' + raw + b"}"
    )


def test_only_what_is_known_is_written() -> None:
    body = encode_event(type="t", chat_jid="1@g.us", payload=b"{}")
    assert body == b'{"type":"t","chat_jid":"1@g.us","payload":{}}'


def test_every_field_travels() -> None:
    fields: dict[str, Any] = {
        "event_id": "8a7f1b1e-9d0c-5e55-8e2a-0d6f3f1f5a11",
        "instance": "loja",
        "gateway": "evolution",
        "scope": "evolution/loja",
        "channel": "webhook",
        "kind": "message",
        "occurred_at": "2025-12-05T16:00:00Z",
        "occurred_from": "message",
        "captured_at": "2025-12-05T16:00:01Z",
        "digest": "00" * 16,
        "reader_error": "no",
    }
    body = encode_event(
        type="t",
        chat_jid=None,
        payload=b"{}",
        flags=("synthetic_id",),
        redacted=("/apikey",),
        **fields,
    )
    expected = {**fields, "type": "t", "chat_jid": None, "payload": {}}
    assert json.loads(body) == {**expected, "flags": ["synthetic_id"], "redacted": ["/apikey"]}
    assert {name: getattr(msgspec.json.decode(body, type=WireEvent), name) for name in fields} == fields


@given(
    st.text(st.characters(exclude_categories=()), max_size=300), st.text(st.characters(exclude_categories=()))
)
def test_whatever_a_gateway_names_its_event_the_backend_takes_it(kind: str, text: str) -> None:
    body = encode_event(type=kind, chat_jid=kind, payload=b"{}", instance=text, scope=text, redacted=(text,))
    event = msgspec.json.decode(body, type=WireEvent)
    assert 1 <= len(event.type) <= TYPE_CHARS_MAX
    assert event.chat_jid is not None
    assert len(event.chat_jid) <= CHAT_JID_CHARS_MAX
    assert "\0" not in event.type + event.chat_jid + (event.instance or "") + (event.scope or "")
    if not kind.strip("\0"):
        assert event.type == UNKNOWN_TYPE


@pytest.mark.parametrize(
    ("raw", "payload"),
    [
        (b'{"a":1}', b'{"a":1}'),
        (b" \n[1]", b" \n[1]"),
        (b"null", b'{"value":null}'),
        (b'"[1]"', b'{"value":"[1]"}'),
        (b"1.0", b'{"value":1.0}'),
        (b" true", b'{"value": true}'),
    ],
)
def test_a_payload_is_an_object_or_an_array(raw: bytes, payload: bytes) -> None:
    assert wrap_payload(raw) == payload


def test_a_receipt_says_no_more_than_it_knows() -> None:
    receipt = Receipt(event_id="x", status="stored")
    assert msgspec.json.encode(receipt) == b'{"event_id":"x","status":"stored"}'
    rejected = msgspec.json.decode(
        b'{"event_id":"x","status":"rejected","code":422,"detail":"no type","new":1}', type=Receipt
    )
    assert (rejected.status, rejected.code, rejected.detail) == ("rejected", 422, "no type")
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"event_id":"x","status":"ok"}', type=Receipt)
