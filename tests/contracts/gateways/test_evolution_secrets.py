"""Secrets that Evolution hands out are cut; media that it adds are facts of their own."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from contracts.gateways import evolution
from tests.contracts.gateways.collecting import Collector
from tests.contracts.gateways.evolution_bodies import WHEN, element, only, read
from tests.golden.table import load_secrets, load_table


@pytest.mark.parametrize("table", ["evolution", "recordings"])
def test_no_secret_of_a_known_body_is_kept(table: str) -> None:
    secrets = load_secrets(table)
    for entry in load_table(table):
        collector = Collector(read=evolution.read)
        collector.feed(entry.body)
        for row in collector.rows.values():
            kept = (
                row.payload + (row.envelope or b"") + row.event.chat_jid.encode()
                if row.event.chat_jid
                else b""
            )
            kept += row.payload + (row.envelope or b"")
            assert [secret for secret in secrets if secret.encode() in kept] == [], entry.name


def test_secrets_of_the_envelope_are_cut_also_from_a_body_without_data() -> None:
    body = {
        "event": "x.y",
        "foo": 1,
        "apikey": "segredo-1",
        "api_key": "segredo-2",
        "Authorization": "segredo-3",
    }
    pairing = {"qrcode": {"code": "segredo-4"}, "pairingCode": "segredo-5", "a": 1}
    for raw in (
        json.dumps(body),
        json.dumps({**body, "event": None, "data": pairing, "qr": "segredo-6"}),
        json.dumps({**body, "data": pairing}),
    ):
        collector = Collector(read=evolution.read)
        collector.feed(raw.encode())
        (row,) = collector.rows.values()
        assert b"segredo" not in row.payload + (row.envelope or b"")
        assert row.kind == "unknown"


@pytest.mark.parametrize(
    "data",
    [
        {"qrcode": {"instance": "loja", "code": "segredo", "base64": "segredo", "pairingCode": "segredo"}},
        {"qrcode": "segredo"},
        {"code": "segredo", "base64": "segredo", "pairingCode": "segredo", "count": 3},
    ],
)
def test_a_qr_is_a_notice_without_the_qr_in_payload_or_hash(data: dict[str, object]) -> None:
    collector = Collector(read=evolution.read)
    collector.feed(json.dumps({"event": "qrcode.updated", "data": data, "date_time": WHEN}).encode())
    (row,) = collector.rows.values()
    assert (row.kind, b"segredo" in row.payload) == ("gateway.notice", False)
    other = json.loads(json.dumps(data).replace("segredo", "outro"))
    assert only(read("qrcode.updated", other)).parts == row.event.parts


def test_a_qr_that_is_no_object_is_counted() -> None:
    assert read("qrcode.updated", "2@x").counted == (("qr", 1),)


def test_bytes_and_links_that_the_gateway_added_are_facts_of_their_own() -> None:
    data, own = b"\x89PNG imagem", b"\x10\x20\x30" * 10 + b"\x01\x02"
    image = {"fileSha256": base64.b64encode(own).decode(), "caption": "x"}
    blob = base64.b64encode(data).decode()
    message = {"imageMessage": image, "base64": blob, "mediaUrl": "https://s3.test/a?sig=1"}
    _, blob_fact, link_fact = read("messages.upsert", element(message)).events
    assert blob_fact.parts == ("3A0F", own.hex(), "blob")
    assert link_fact.parts == ("3A0F", own.hex(), "link")
    assert blob_fact.payload is not None
    media = json.loads(blob_fact.payload)["media"]
    assert media == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    assert blob.encode() not in blob_fact.payload
    assert link_fact.payload is not None
    assert json.loads(link_fact.payload)["media"] == {"link": "https://s3.test/a?sig=1"}


def test_without_a_hash_of_its_own_the_blob_is_known_by_its_bytes() -> None:
    bare = {"imageMessage": {}, "base64": "data:image/png;base64,QUJD"}
    _, fact = read("messages.upsert", element(bare)).events
    assert fact.parts == ("3A0F", hashlib.sha256(b"ABC").hexdigest(), "blob")
    _, broken = read("messages.upsert", element({"imageMessage": {}, "base64": "%%%"})).events
    assert broken.parts == ("3A0F", None, "blob")
    _, link = read("messages.upsert", element({"imageMessage": {}, "mediaUrl": "https://s3.test/a"})).events
    assert link.parts == ("3A0F", None, "link")


@pytest.mark.parametrize("form", ["base64", "index", "buffer", "buffer64"])
def test_a_file_hash_is_the_same_in_every_form(form: str) -> None:
    own = bytes(range(32))
    forms: dict[str, object] = {
        "base64": base64.b64encode(own).decode(),
        "index": {str(index): byte for index, byte in enumerate(own)},
        "buffer": {"type": "Buffer", "data": list(own)},
        "buffer64": {"type": "Buffer", "data": base64.b64encode(own).decode()},
    }
    message = {"documentWithCaptionMessage": {"message": {"documentMessage": {"fileSha256": forms[form]}}}}
    events = read("messages.upsert", element({**message, "mediaUrl": "https://s3.test/a"})).events
    assert events[1].parts == ("3A0F", own.hex(), "link")


@pytest.mark.parametrize(
    "added", [{"mediaUrl": None}, {"mediaUrl": ""}, {"base64": None}, {"base64": {"a": 1}}]
)
def test_no_media_is_no_fact(added: dict[str, object]) -> None:
    assert only(read("messages.upsert", element({"imageMessage": {}, **added}))).kind == "message"
