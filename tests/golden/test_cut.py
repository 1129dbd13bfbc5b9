"""The law of identity: a body gives the same facts, whether or not its base64 was cut out of it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.blobref import BlobRef
from contracts.blobs import encode_ref, ref_of
from contracts.configured import CapturePolicy, default_gateways
from contracts.events import Event
from contracts.jsontext import decode
from contracts.scopes import Source
from contracts.translation import Arrival, Rules, fixed_id, translate
from tests.golden.table import Entry, load_table
from tests.support.cutting import Result, translate_cut

GATEWAYS = {gateway.name: gateway for gateway in default_gateways()}
RULES = Rules(policy=CapturePolicy(presence=True), scope_of="/".join, secrets=())
PICTURE = bytes(range(256)) * 3
TEXT = base64.b64encode(PICTURE).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """All that a door makes of an event: its identity, what suppression compares, the row."""

    id: str | None
    digest: bytes | None
    subject: object
    members: Mapping[str, bytes]
    row: object
    blobs: tuple[BlobRef, ...]


def keep(arrival: Arrival, source: Source, scope: str, event: Event, body: bytes) -> Fact:
    row = decode(body)
    assert isinstance(row, dict)
    listed = tuple(ref for ref in map(ref_of, row.pop("blobs", [])) if ref is not None)
    assert listed == event.blobs
    return Fact(
        id=fixed_id(scope, event, ("place", 1)),
        digest=event.digest,
        subject=(event.fold, event.subject),
        members=event.members,
        row=row,
        blobs=listed,
    )


def filled(row: object, texts: Mapping[str, str]) -> object:
    """The row with the text again where a ref stands."""
    ref = ref_of(row)
    if ref is not None and ref.sha256 in texts:
        return texts[ref.sha256]
    if isinstance(row, dict):
        return {name: filled(value, texts) for name, value in row.items()}
    return [filled(item, texts) for item in row] if isinstance(row, list) else row


def compared(raw: bytes, family: str, path_instance: str | None = None) -> tuple[tuple[Fact, ...], Result]:
    """The facts of the cut body, which are those of the whole."""
    whole = Arrival(
        raw=raw,
        gateway=GATEWAYS[family],
        path_instance=path_instance,
        channel="webhook",
        captured_at=datetime(2026, 5, 1, tzinfo=UTC),
    )
    of_whole = translate(whole, RULES, keep)
    of_cut, result = translate_cut(whole, RULES, keep)
    assert (of_cut.source, of_cut.counted) == (of_whole.source, of_whole.counted)
    texts = {cut.sha256: json.loads(b'"' + result.text(cut) + b'"') for cut in result.cuts}
    for cut, uncut in zip(of_cut.captured, of_whole.captured, strict=True):
        assert (cut.id, cut.digest, cut.subject, cut.members) == (
            uncut.id,
            uncut.digest,
            uncut.subject,
            uncut.members,
        )
        assert filled(cut.row, texts) == uncut.row
        assert uncut.blobs == ()
    return of_cut.captured, result


@pytest.mark.parametrize("entry", load_table(), ids=lambda entry: f"{entry.table}/{entry.name}")
def test_a_golden_body_gives_the_same_rows_when_it_is_cut(entry: Entry) -> None:
    compared(entry.body, entry.family, entry.path_instance)


def test_golden_bodies_are_cut() -> None:
    cut = [
        entry.name
        for entry in load_table()
        for facts, _ in [compared(entry.body, entry.family, entry.path_instance)]
        if any(fact.blobs for fact in facts)
    ]
    assert len(cut) >= 2, cut


def evolution(data: object, event: str = "messages.upsert", **more: object) -> bytes:
    body = {"event": event, "instance": "loja-sp", "date_time": "2026-05-01T10:00:00.000Z", "data": data}
    return json.dumps(body | more).encode()


def element(number: int = 1, **message: object) -> dict[str, Any]:
    return {
        "key": {"id": f"M{number}", "remoteJid": "5511900000001@s.whatsapp.net", "fromMe": False},
        "messageTimestamp": 1777600000 + number,
        "message": {"imageMessage": {"mimetype": "image/jpeg", "caption": "foto"}, "base64": TEXT} | message,
    }


def test_both_facts_of_an_element_have_the_same_blob() -> None:
    facts, result = compared(evolution(element()), "evolution")
    (cut,) = result.cuts
    ref = BlobRef(sha256=cut.sha256, bytes=len(PICTURE), mime="image/jpeg")
    rows = [fact.row for fact in facts]
    assert [row["kind"] for row in rows if isinstance(row, dict)] == ["message", "message.media"]
    assert [fact.blobs for fact in facts] == [(ref,), (ref,)]
    assert isinstance(rows[0], dict)
    assert rows[0]["payload"]["message"]["base64"] == json.loads(encode_ref(ref))
    assert isinstance(rows[1], dict)
    assert rows[1]["payload"]["media"] == {"sha256": cut.sha256, "bytes": len(PICTURE)}


DOUBLED = b'"base64": "QUJDQUJDQUJD!", "base64"'
CUT = {
    "doubled": (evolution(element()).replace(b'"base64"', DOUBLED), "evolution", 1),
    "one element": (evolution(element()), "evolution", 1),
    "an array": (evolution([element(1), element(2), element(3)]), "evolution", 3),
    "messages of one": (evolution({"messages": [element(1), element(2)]}, "messages.set"), "evolution", 2),
    "no key id": (evolution(element() | {"key": {"remoteJid": "1@s.whatsapp.net"}}), "evolution", 1),
    "ephemeral": (
        evolution(
            element()
            | {
                "message": {
                    "ephemeralMessage": {"message": {"audioMessage": {"mimetype": "audio/ogg; codecs=opus"}}},
                    "base64": TEXT,
                }
            }
        ),
        "evolution",
        1,
    ),
    "sent": (evolution(element(), "send.message"), "evolution", 1),
    "baileys": (
        json.dumps(
            {"event": "messages.upsert", "data": {"messages": [element(1), element(2)], "type": "notify"}}
        ).encode(),
        "baileys",
        2,
    ),
    "history": (
        json.dumps(
            {"event": "messaging-history.set", "data": {"messages": [element(1)], "chats": [], "progress": 5}}
        ).encode(),
        "baileys",
        1,
    ),
    "waha": (
        json.dumps(
            {
                "event": "message",
                "session": "default",
                "id": "evt_1",
                "payload": {
                    "id": "false_5511900000001@c.us_AAA",
                    "timestamp": 1777600000,
                    "from": "5511900000001@c.us",
                    "body": "",
                    "media": {"mimetype": "image/png", "filename": "a.png", "data": TEXT},
                },
            }
        ).encode(),
        "waha",
        1,
    ),
    "a data URL": (evolution(element(base64="data:image/png;base64," + TEXT)), "evolution", 1),
    "a natural ref beside it": (
        evolution(element(other={"$blob": {"sha256": "0" * 64, "bytes": 1, "mime": None}})),
        "evolution",
        1,
    ),
    "a mark of a stranger": (evolution(element(other="$blob:" + "0" * 32 + ":000000000001")), "evolution", 1),
}
KEPT = {
    "another event": (evolution(element(), "something.new"), "evolution"),
    "another place": (evolution(element() | {"message": {"conversation": "x"}, "base64": TEXT}), "evolution"),
    "deeper": (evolution(element() | {"message": {"extra": {"base64": TEXT}}}), "evolution"),
    "no JSON": (evolution(element())[:-1], "evolution"),
    "broken off inside": (evolution(element()).split(TEXT[-40:].encode())[0], "evolution"),
    "another spelling": (evolution(element(base64=TEXT[:100] + "\n" + TEXT[100:])), "evolution"),
    "no base64": (evolution(element(base64=TEXT + "?")), "evolution"),
    "of a bot without names": (json.dumps({"base64": TEXT}).encode(), "baileys"),
    "waha elsewhere": (
        json.dumps({"event": "message", "payload": {"id": "x", "data": TEXT}}).encode(),
        "waha",
    ),
    "cloudapi": (evolution(element()), "cloudapi"),
}


@pytest.mark.parametrize("name", CUT)
def test_what_a_gateway_adds_is_cut_and_every_fact_stays_the_same(name: str) -> None:
    raw, family, count = CUT[name]
    facts, result = compared(raw, family, "loja-sp")
    assert len({ref.sha256 for fact in facts for ref in fact.blobs}) == 1
    assert sum(len(fact.blobs) > 0 for fact in facts) >= count
    rows = json.dumps([fact.row for fact in facts])
    assert TEXT not in rows
    (sha256,) = {cut.sha256 for cut in result.cuts if cut.complete}
    assert rows.count(sha256) >= count


@pytest.mark.parametrize("name", KEPT)
def test_what_is_no_file_of_a_message_stays_where_it_was(name: str) -> None:
    facts, _ = compared(*KEPT[name], "loja-sp")
    assert [ref for fact in facts for ref in fact.blobs] == []


def test_a_forged_ref_stays_and_is_none_of_the_event() -> None:
    forged = json.loads(encode_ref(BlobRef(sha256="ab" * 32, bytes=9, mime="image/png")))
    facts, _ = compared(evolution(element(base64="QUI", forged=forged)), "evolution")
    assert all("ab" * 32 not in {ref.sha256 for ref in fact.blobs} for fact in facts)
    row = facts[0].row
    assert isinstance(row, dict)
    assert row["payload"]["message"]["forged"] == forged


def test_a_secret_beside_the_picture_takes_nothing_of_it_along() -> None:
    raw = evolution(element(), qrcode={"base64": TEXT}, apikey="chave-inventada")
    facts, _ = compared(raw, "evolution")
    assert "chave-inventada" not in repr(facts)


NAMES = st.sampled_from(
    [
        "key",
        "id",
        "message",
        "base64",
        "data",
        "messages",
        "media",
        "payload",
        "imageMessage",
        "fileSha256",
        "mimetype",
        "status",
        "update",
        "x",
    ]
)
TEXTS = st.sampled_from(
    [TEXT, TEXT[:200], "QUJD", "", "image/png", "M1", "a/b", "5511900000001@s.whatsapp.net"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=14,
)
EVENTS = st.sampled_from(
    [
        "messages.upsert",
        "messages.update",
        "messages.edited",
        "send.message",
        "messages.set",
        "contacts.update",
        "message",
        "message.any",
        "message.ack",
        "message.revoked",
        "messaging-history.set",
        "nothing.known",
    ]
)


@given(data=JSON, event=EVENTS, family=st.sampled_from(["evolution", "baileys", "waha"]))
def test_any_body_gives_the_same_facts_when_it_is_cut(data: object, event: str, family: str) -> None:
    member = "payload" if family == "waha" else "data"
    body = {
        "event": event,
        "instance": "i",
        "id": "e1",
        "date_time": "2026-05-01T10:00:00.000Z",
        member: data,
    }
    compared(json.dumps(body).encode(), family, "i")


@given(
    message=st.dictionaries(NAMES, JSON, max_size=4), event=EVENTS, mode=st.sampled_from(["plain", "escaped"])
)
def test_any_message_with_a_picture_gives_the_same_facts(
    message: dict[str, object], event: str, mode: str
) -> None:
    raw = evolution(element() | {"message": {"base64": TEXT, **message}}, event)
    if mode == "escaped":
        raw = re.sub(rb"(?<!\\)/", rb"\\/", raw)
    compared(raw, "evolution")
