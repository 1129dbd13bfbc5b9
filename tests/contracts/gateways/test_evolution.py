"""Rules of the Evolution reader: one fact by every door, version and spelling; nothing refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from contracts.events import Event, Fold
from contracts.gateways import evolution
from tests.contracts.gateways.collecting import Collector
from tests.contracts.gateways.evolution_bodies import ALL_EVENTS, CHAT, KEY, WHEN, element, only, read
from tests.golden.table import load_table


@pytest.mark.parametrize(("name", "data", "kind"), ALL_EVENTS, ids=[row[0] for row in ALL_EVENTS])
def test_every_event_of_evolution_has_its_kind_under_every_spelling(
    name: str, data: object, kind: str
) -> None:
    event = only(read(name, data))
    assert (event.kind, event.type) == (kind, name)
    for spelling in (name.upper(), name.replace(".", "-"), name.replace(".", "_").replace("-", "_").upper()):
        again = only(read(spelling, data))
        assert (again.kind, again.type, again.parts) == (kind, name, event.parts)


@pytest.mark.parametrize("entry", load_table("evolution", "recordings"), ids=lambda entry: entry.name)
def test_the_door_a_new_key_or_a_new_server_change_no_identity(entry: object) -> None:
    from tests.golden.table import Entry

    assert isinstance(entry, Entry)
    body = json.loads(entry.body)
    noise = {
        "destination": "https://other.test/x",
        "apikey": "OUTRA",
        "server_url": "https://y.test",
        "sender": "1",
    }
    plain = {name: value for name, value in body.items() if name not in noise}
    first, second = evolution.read(plain), evolution.read({**plain, **noise})
    facts = [(event.kind, event.parts, event.occurrence, event.digest) for event in first.events]
    assert [(event.kind, event.parts, event.occurrence, event.digest) for event in second.events] == facts
    assert first.counted == second.counted
    assert [event.kind for event in first.events if event.kind != "presence"] == list(entry.kinds)


def test_the_occurrence_is_date_time_and_never_a_time() -> None:
    event = only(read("contacts.update", {"remoteJid": CHAT, "pushName": "Ana"}))
    assert (event.occurrence, event.occurred_at, event.occurred_from) == (WHEN, None, None)
    assert event.fold is Fold.NONE
    assert not event.needs_stamp
    unstamped = only(
        evolution.read({"event": "contacts.update", "data": {"remoteJid": CHAT, "pushName": "Ana"}})
    )
    assert unstamped.needs_stamp
    assert unstamped.fold is Fold.SNAPSHOT


def test_a_message_knows_its_own_time() -> None:
    event = only(read("messages.upsert", element({"conversation": "a"})))
    assert (event.occurred_at, event.occurred_from) == (datetime(2025, 12, 5, 16, tzinfo=UTC), "message")


@pytest.mark.parametrize(
    "data",
    [
        {"keyId": "3EB0", "remoteJid": "1@lid", "fromMe": True, "status": "READ", "messageId": "cm1"},
        {"keyId": "3EB0", "status": "READ", "participant": "2@lid"},
        {"remoteJid": CHAT, "fromMe": True, "id": "3EB0", "status": "READ", "datetime": 1717592400123},
        {"key": {"id": "3EB0", "remoteJid": CHAT}, "status": 4},
        {"keyId": "3EB0", "status": "read", "messageId": "cm2"},
        {"key": {"id": "3EB0"}, "update": {"status": 4}},
    ],
)
def test_a_status_is_its_message_and_its_name_in_every_version(data: object) -> None:
    event = only(read("messages.update", data))
    assert (event.kind, event.parts) == ("message.status", ("3EB0", "READ", None))


def test_votes_ride_on_a_status_and_are_kept() -> None:
    tally = {"keyId": "3EB0", "status": "SERVER_ACK", "pollUpdates": [{"name": "Sim", "voters": ["1@lid"]}]}
    votes, status = read("messages.update", tally).events
    assert (votes.kind, votes.path, votes.needs_stamp) == ("message.flag", ("data",), False)
    assert (status.parts, status.path) == (("3EB0", "SERVER_ACK", None), None)


def test_a_status_without_a_message_is_stored_apart() -> None:
    event = only(read("messages.update", {"status": "READ"}))
    assert event.flags == ("synthetic_id",)
    assert event.parts[0] is None


@pytest.mark.parametrize(
    "data",
    [
        {**KEY, "id": "3EB0"},
        {**KEY, "id": "3EB0", "status": "DELETED"},
        {
            "id": "cmis0",
            "key": {**KEY, "id": "3EB0"},
            "message": {"conversation": "a"},
            "messageTimestamp": 1764950405,
        },
        {"keyId": "3EB0", "id": "cmis0"},
        {"keys": [{**KEY, "id": "3EB0"}]},
        "3EB0",
    ],
)
def test_a_delete_is_a_revoke_of_its_target_in_every_form(data: object) -> None:
    event = only(read("messages.delete", data))
    assert (event.kind, event.parts, event.occurred_at) == ("message.revoke", ("3EB0",), None)


def test_an_edit_without_its_time_is_an_echo_and_with_it_one_fact_for_all_carriers() -> None:
    edit = {"key": {"id": "T"}, "type": "MESSAGE_EDIT", "editedMessage": {"conversation": "b"}}
    echo = only(read("messages.edited", edit))
    assert (echo.kind, echo.occurrence) == ("message.edit.echo", WHEN)
    edited = only(
        read("messages.edited", {**edit, "timestampMs": {"low": -280798533, "high": 410, "unsigned": False}})
    )
    folded = {**edit, "editedMessage": {"extendedTextMessage": {"text": "b"}}, "timestampMs": "1764950760123"}
    sent = only(read("send.message.update", folded))
    assert edited.parts == sent.parts
    disguised = {
        "keyId": "T",
        "status": "SERVER_ACK",
        "message": {"editedMessage": {"message": {"conversation": "b"}}},
    }
    assert only(read("messages.update", disguised)).parts == echo.parts


def test_a_label_without_carrier_says_null_for_what_it_lacks() -> None:
    event = only(read("messages.edited", {"type": 30, "memberLabel": {"label": "mentora"}}))
    assert event.kind == "group.member_tag"
    assert event.parts[:4] == (None, None, "mentora", None)
    assert event.occurrence == WHEN


def test_a_bare_protocol_message_is_known_by_type_hash_and_occurrence_without_its_keys() -> None:
    def share(key: str) -> Event:
        return only(read("messages.edited", {"type": 6, "appStateSyncKeyShare": {"keys": [key]}}))

    assert share("a").parts == share("b").parts
    assert share("a").cuts == (("appStateSyncKeyShare",),)
    assert share("a").parts[0] == "APP_STATE_SYNC_KEY_SHARE"


def test_an_acknowledged_message_from_the_phone_is_message_and_status() -> None:
    own = {**KEY, "fromMe": True}
    message, status = read(
        "messages.upsert", element({"conversation": "a"}, key=own, status="SERVER_ACK")
    ).events
    assert (message.kind, status.kind) == ("message", "message.status")
    assert status.parts == only(read("messages.update", {"keyId": "3A0F", "status": "SERVER_ACK"})).parts
    assert (
        only(read("send.message", element({"conversation": "a"}, key=own, status="PENDING"))).parts
        == message.parts
    )


def test_the_raw_call_node_is_the_call() -> None:
    step = {"tag": "offer", "attrs": {"call-id": "C1"}}
    packet = {"tag": "call", "attrs": {"from": "1@lid", "t": "1764952200"}, "content": [step]}
    raw = only(read("call", {"event": "CB:call", "packet": packet}))
    plain = only(
        read("call", {"id": "C1", "from": "1@lid", "status": "offer", "date": "2025-12-05T16:30:00.000Z"})
    )
    assert (raw.kind, raw.parts, raw.chat_jid) == (plain.kind, plain.parts, plain.chat_jid)
    assert raw.occurred_at == plain.occurred_at == datetime(2025, 12, 5, 16, 30, tzinfo=UTC)
    bare = only(
        read("call", {"event": "CB:ack,class:call", "packet": {"tag": "ack", "attrs": {"type": "offer"}}})
    )
    assert bare.flags == ("synthetic_id",)


def test_error_webhook_has_no_instance() -> None:
    reading = evolution.read({"event": "error", "data": {"status": 400}, "date_time": WHEN, "api_key": "x"})
    assert (reading.instance, reading.cuts) == (None, (("api_key",),))
    assert only(reading).kind == "gateway.notice"


def test_the_body_names_the_instance_and_only_else_the_path_stands() -> None:
    assert read("chats.delete", [CHAT]).instance == "loja"
    nameless = evolution.read(
        {"event": "connection.update", "data": {"state": "open"}}, path_instance="outra"
    )
    assert nameless.instance is None
    assert only(nameless).subject == '["outra"]'


def test_a_body_without_data_is_its_own_element() -> None:
    event = only(evolution.read({"event": "logout.instance", "instance": "loja", "date_time": WHEN}))
    assert (event.kind, event.path) == ("instance.logout", ())
    assert event.parts == only(read("logout.instance", None)).parts


@pytest.mark.parametrize(
    "data", [[], {"remoteJid": CHAT, "instanceId": "x"}, [{"remoteJid": CHAT, "owner": "loja"}]]
)
def test_a_chat_that_says_only_who_it_is_is_empty(data: object) -> None:
    reading = read("chats.update", data)
    assert (reading.events, reading.counted) == ((), (("empty", 1),))


@pytest.mark.parametrize("data", [None, "x", 5, [None], [[]], True])
def test_elements_of_another_shape_are_stored_as_unknown(data: object) -> None:
    for name, _, kind in ALL_EVENTS:
        whole = kind.startswith(("gateway.", "instance.")) or name.endswith(".delete")
        for event in read(name, data).events:
            assert event.path is not None
            assert event.type == name
            assert event.kind == "unknown" or whole, name


def test_data_path_leaves_the_extra_members_of_messages_set_in_the_envelope() -> None:
    body = {
        "event": "messages.set",
        "isLatest": False,
        "progress": 63,
        "data": [element({"conversation": "a"})],
    }
    collector = Collector(read=evolution.read)
    collector.feed(json.dumps(body).encode())
    (row,) = collector.rows.values()
    assert row.event.path == ("data", 0)
    assert row.envelope is not None
    assert json.loads(row.envelope) == {"event": "messages.set", "isLatest": False, "progress": 63}


WEBSOCKET: Final[dict[str, str | None]] = {
    "chats-update": None,
    "chats-upsert": None,
    "connection-update": "connection",
    "contacts-update": "contact",
    "contacts-upsert": "contact",
    "groups-update": "group.metadata",
    "instance-create": "instance.create",
    "messages-edited": "message.edit",
    "messages-upsert": "message",
    "presence-update": "presence",
    "send-message": "message",
}


def test_the_recorded_websocket_carries_the_same_bodies() -> None:
    folder = Path(__file__).resolve().parent / "fixtures" / "websocket-global"
    assert {path.stem for path in folder.iterdir()} == set(WEBSOCKET)
    for name, kind in WEBSOCKET.items():
        (body,) = json.loads((folder / f"{name}.json").read_text("utf-8"))["args"]
        reading = evolution.read(body)
        assert [event.kind for event in reading.events] == ([kind] if kind else []), name
        assert reading.counted == (() if kind else (("empty", 1),)), name
        assert [event.parts for event in evolution.read({**body, "destination": "x"}).events] == [
            event.parts for event in reading.events
        ]


def test_an_update_that_takes_the_message_away_is_a_revoke() -> None:
    update = {"keyId": "A", "fromMe": True, "status": "SERVER_ACK", "message": None, "messageStubType": 1}
    revoke = only(read("messages.update", update))
    assert (revoke.kind, revoke.parts) == ("message.revoke", ("A",))
    refused = {"keyId": "A", "status": "ERROR", "messageStubParameters": ["463"]}
    assert only(read("messages.update", refused)).parts == ("A", "ERROR", "463")


def test_the_senders_view_of_a_chat_is_not_told_as_ours() -> None:
    own, peer = "5511900000001@s.whatsapp.net", "5511900000002@s.whatsapp.net"
    for chat, told in ((own, None), ("5511900000001:5@s.whatsapp.net", None), (peer, peer), (CHAT, CHAT)):
        revoke = {"key": {"remoteJid": chat, "fromMe": True, "id": "A"}, "type": "REVOKE"}
        event = only(read("messages.edited", revoke, sender=own))
        assert (event.chat_jid, event.parts) == (told, ("A",))
