"""Payload and envelope are the received bytes, part by part, whatever numbers and names they hold."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from contracts.events import Event, Reading
from contracts.parting import Cutter, bytes_as_parts, unread_parts

EVENT = Event(kind="contact", type="t", chat_jid=None, parts=("x",), path=("data",))
READING = Reading(instance=None, events=(EVENT,), data_path=("data",), cuts=(("apikey",), ("data", "qr")))


def parts(raw: bytes, secrets: tuple[str, ...] = ()) -> tuple[bytes, bytes | None, tuple[str, ...]]:
    cut_parts = Cutter(raw, READING, secrets, [EVENT]).parts_of(EVENT)
    return cut_parts.payload, cut_parts.envelope, cut_parts.redacted


def test_numbers_are_not_rounded_and_secrets_are_named() -> None:
    raw = b'{"n": 12345678901234567890.10, "data": {"x": 1.0, "qr": "q", "e": 1e400}, "apikey": "k"}'
    payload, envelope, redacted = parts(raw)
    assert payload == b'{"x": 1.0, "qr": null, "e": 1e400}'
    assert envelope is not None
    assert b"12345678901234567890.10" in envelope
    assert json.loads(envelope)["apikey"] is None
    assert redacted == ("/payload/qr", "/envelope/apikey")


def test_a_body_that_only_the_lenient_scanner_takes_is_parted_too() -> None:
    payload, envelope, _ = parts(b'{"s":"\\ud83d","n":NaN,"data":{"y":NaN}}')
    assert payload == b'{"y":NaN}'
    assert envelope is not None
    assert b'"s":"\\ud83d"' in envelope
    assert b'"n":NaN' in envelope


names = st.text(max_size=5)
values = st.recursive(
    st.none() | st.text(max_size=5) | st.integers(), lambda inner: st.lists(inner, max_size=3)
)


@given(st.dictionaries(names, values, max_size=5), values, st.booleans())
def test_payload_and_envelope_together_are_the_body(
    rest: dict[str, object], data: object, ascii_only: bool
) -> None:
    body = {**rest, "data": data}
    payload, envelope, _ = parts(
        json.dumps(body, ensure_ascii=ascii_only, indent=1).encode("utf-8", "replace")
    )
    assert envelope is not None
    said = json.loads(envelope)
    assert {**said, "data": json.loads(payload)} == {
        key: None if key == "apikey" else value for key, value in body.items()
    }
    assert "data" not in said


def test_an_event_with_an_envelope_of_its_own() -> None:
    raw = b'{"object":"o","entry":[{"id":"1","secret":"s","m":[{"a":1}]}]}'
    event = Event(
        kind="message",
        type="messages",
        chat_jid=None,
        parts=("x",),
        path=("entry", 0, "m", 0),
        context={"object": ("object",), "where": ("entry", 0)},
    )
    reading = Reading(instance=None, events=(event,), cuts=(("entry", 0, "secret"),))
    cut_parts = Cutter(raw, reading, (), [event]).parts_of(event)
    assert cut_parts.payload == b'{"a":1}'
    assert cut_parts.envelope == b'{"object":"o","where":{"id":"1","secret":null,"m":[{"a":1}]}}'
    assert cut_parts.redacted == ("/envelope/where/secret",)


def test_what_nobody_could_read_loses_the_usual_keys() -> None:
    read = unread_parts(
        b'{"event":"x","apikey":"k","data":{"qrcode":{"code":"2@"}}}', ("a-configured-secret",)
    )
    assert read.payload == b'{"event":"x","apikey":null,"data":{"qrcode":null}}'
    assert read.redacted == ("/payload/apikey", "/payload/data/qrcode")
    assert bytes_as_parts(b"\xff", ()).payload == b'{"$bytes":"/w=="}'
