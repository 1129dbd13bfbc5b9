"""States of the Baileys reader: what is cut, folded, counted and fanned out."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from contracts.events import Fold
from contracts.gateways import baileys
from tests.contracts.gateways.baileys_bodies import ALL_EVENTS, CHAT, KEY, collect, only, read, upsert
from tests.contracts.gateways.collecting import Collector
from tests.golden.table import Entry, load_secrets, load_table


def test_keys_of_the_account_are_cut_wherever_a_message_lies() -> None:
    share = {"protocolMessage": {"type": 6, "appStateSyncKeyShare": {"keys": ["segredo-1"]}}}
    history = {
        "protocolMessage": {"type": 5, "historySyncNotification": {"mediaKey": "segredo-2", "progress": 1}}
    }
    wrapped = {"deviceSentMessage": {"message": {"ephemeralMessage": {"message": share}}}}
    element = {"key": KEY, "messageTimestamp": 1}
    copies = {"id": CHAT, "name": "x", "messages": [{"message": {**element, "message": share}}]}
    collector = collect(
        {"event": "messages.upsert", "data": {"messages": [{**element, "message": share}]}},
        {
            "event": "messages.upsert",
            "data": {"messages": [{**element, "key": {"id": "B"}, "message": history}]},
        },
        {
            "event": "messages.upsert",
            "data": {"messages": [{**element, "key": {"id": "C"}, "message": wrapped}]},
        },
        {"event": "messages.update", "data": [{"key": KEY, "update": {"message": share}}]},
        {"event": "chats.update", "data": [copies]},
        {
            "event": "messaging-history.set",
            "data": {"messages": [{**element, "key": {"id": "D"}, "message": share}]},
        },
        {"event": "connection.update", "data": {"connection": "connecting", "qr": "segredo-3"}},
    )
    assert len(collector.rows) == 7
    for row in collector.rows.values():
        assert b"segredo" not in row.payload + (row.envelope or b"")
        assert row.redacted


def test_what_a_person_wrote_is_never_cut() -> None:
    text = json.dumps({"apikey": "segredo", "qrcode": "2@x", "mediaKey": "k"})
    collector = collect(
        {
            "event": "messages.upsert",
            "data": {
                "messages": [
                    {
                        "key": KEY,
                        "message": {
                            "conversation": text,
                            "imageMessage": {"mediaKey": "AQI=", "caption": text},
                        },
                    }
                ]
            },
        }
    )
    (row,) = collector.rows.values()
    assert (row.redacted, json.loads(row.payload)["message"]["imageMessage"]["mediaKey"]) == ((), "AQI=")


def test_a_qr_alone_is_counted() -> None:
    reading = read("connection.update", {"qr": "https://wa.me/settings/linked_devices#2@x"})
    assert (reading.events, reading.counted) == ((), (("qr", 1),))


def test_connection_rounds_keep_every_transition() -> None:
    states = ["connecting", "open", "open", "close", "connecting", "open", "close"]
    collector = collect(*({"event": "connection.update", "data": {"connection": state}} for state in states))
    assert len(collector.rows) == 6


def test_a_stamped_bot_repeats_nothing_and_hides_nothing() -> None:
    def body(seq: int, subject: str) -> dict[str, object]:
        data = [{"id": CHAT, "subject": subject}]
        return {"event": "groups.update", "data": data, "at": "2025-12-05T16:00:00.000Z", "seq": seq}

    collector = collect(body(1, "A"), body(1, "A"), body(2, "A"), body(3, "B"))
    assert len(collector.rows) == 3
    event = next(iter(collector.rows.values())).event
    assert (event.occurrence, event.fold) == (("2025-12-05T16:00:00.000Z", 1), Fold.NONE)
    assert (event.occurred_at, event.occurred_from) == (datetime(2025, 12, 5, 16, tzinfo=UTC), "gateway")


def test_half_a_stamp_is_none() -> None:
    for more in ({"at": 1}, {"seq": 1}, {"at": None, "seq": 1}, {"at": 1.5, "seq": 1}, {"at": "", "seq": 1}):
        assert only(read("groups.update", [{"id": CHAT, "subject": "A"}], **more)).needs_stamp


def test_a_deleted_chat_forgets_its_state() -> None:
    named = {"event": "chats.upsert", "data": [{"id": CHAT, "name": "Equipe"}]}
    gone = {"event": "chats.delete", "data": [CHAT]}
    collector = collect(named, named, gone, named)
    assert collector.kinds() == ["chat", "chat", "chat"]
    assert [row.event.fold for row in collector.rows.values()] == [Fold.SNAPSHOT, Fold.CLEAR, Fold.SNAPSHOT]


def test_members_of_a_contact_do_not_re_arm_each_other() -> None:
    def contact(**members: str) -> dict[str, object]:
        return {"event": "contacts.update", "data": [{"id": "1@lid", **members}]}

    ana, bia = contact(notify="Ana"), contact(notify="Bia", imgUrl="changed")
    assert len(collect(ana, bia, ana).rows) == 3
    assert len(collect(ana, contact(imgUrl="changed"), ana, contact(imgUrl="changed")).rows) == 2


def test_labels_and_blocks_change_per_subject() -> None:
    def label(kind: str, chat: str) -> dict[str, object]:
        return {
            "event": "labels.association",
            "data": {"type": kind, "association": {"chatId": chat, "labelId": "3"}},
        }

    one, two = "5511900000002@s.whatsapp.net", "5511900000003@s.whatsapp.net"
    assert (
        len(collect(label("add", one), label("add", two), label("add", one), label("remove", one)).rows) == 3
    )
    block = {"event": "blocklist.update", "data": {"blocklist": ["1@lid"], "type": "add"}}
    unblock = {"event": "blocklist.update", "data": {"blocklist": ["1@lid"], "type": "remove"}}
    assert len(collect(block, block, unblock, block).rows) == 3


def test_unknown_events_are_never_folded() -> None:
    assert len(collect(*({"event": "x.y", "data": {"a": 1}} for _ in range(3))).rows) == 3


@pytest.mark.parametrize(
    ("event", "data"),
    [
        ("messages.upsert", {"messages": [], "type": "notify"}),
        ("chats.update", []),
        ("chats.update", [{"id": CHAT}]),
        ("messaging-history.set", {"chats": [], "messages": [], "contacts": []}),
        ("blocklist.update", {"blocklist": []}),
        ("presence.update", {"id": CHAT, "presences": {}}),
    ],
)
def test_what_holds_nothing_is_counted_as_empty(event: str, data: object) -> None:
    reading = read(event, data)
    assert (reading.events, reading.counted) == ((), (("empty", 1),))


def test_history_fans_out_and_loses_nobody() -> None:
    data = {
        "messages": [{"key": KEY, "message": {"conversation": "a"}}],
        "chats": [{"id": CHAT, "name": "Equipe"}],
        "contacts": [{"id": "1@lid", "notify": "Ana"}],
        "lidPnMappings": [{"lid": "1@lid", "pn": "5511900000002@s.whatsapp.net"}],
        "pastParticipants": [
            {"groupJid": CHAT, "pastParticipants": [{"userJid": "2@lid", "leaveReason": 0}]}
        ],
        "progress": 63,
        "syncType": 3,
    }
    reading = read("messaging-history.set", data)
    kinds = ["message", "chat", "contact", "lid_mapping", "group.participants"]
    assert [event.kind for event in reading.events] == kinds
    assert {tuple(event.context) for event in reading.events} == {("event", "progress", "syncType")}


def test_presence_of_several_people_is_one_fact_each() -> None:
    people = {"1@lid": {"lastKnownPresence": "composing"}, "2@lid": {"lastKnownPresence": "paused"}}
    one, two = read("presence.update", {"id": CHAT, "presences": people}).events
    assert one.parts[:3] == (CHAT, "1@lid", "composing")
    assert two.payload is not None
    assert json.loads(two.payload) == {"id": CHAT, "presences": {"2@lid": {"lastKnownPresence": "paused"}}}


def test_a_clear_of_the_whole_chat_and_of_one_message_are_told_apart() -> None:
    everything = only(read("messages.delete", {"jid": "5511900000002:3@s.whatsapp.net", "all": True}))
    one = only(read("messages.delete", {"keys": [KEY]}))
    assert everything.parts[:2] == ("5511900000002@s.whatsapp.net", "all")
    assert (one.parts, one.path) == (("3EB0A1",), ("data", "keys", 0))


def test_each_event_of_the_map_twice_in_a_row_is_its_rows_once() -> None:
    unfolded = {"messaging-history.status", "message-capping.update", "presence.update", "chats.delete"}
    for name, data, kinds in ALL_EVENTS:
        body = {"event": name, "data": data}
        if name not in unfolded:
            assert len(collect(body, body).rows) == len(kinds), name


@pytest.mark.parametrize("entry", load_table("baileys"), ids=lambda entry: entry.name)
def test_each_known_body_twice_in_a_row_is_its_rows_once(entry: Entry) -> None:
    collector = Collector(read=baileys.read)
    collector.feed_all([entry.body, entry.body])
    assert [kind for kind in collector.kinds() if kind != "presence"] == list(entry.kinds)
    kept = b"".join(row.payload + (row.envelope or b"") for row in collector.rows.values())
    assert [secret for secret in load_secrets("baileys") if secret.encode() in kept] == []


def test_members_that_are_null_say_nothing() -> None:
    empty = {"conversation": None, "imageMessage": None, "senderKeyDistributionMessage": {"groupId": CHAT}}
    assert only(upsert(empty, messageStubType=2)).kind == "message.stub"
    revoke = {"protocolMessage": {"key": {"id": "A"}, "type": None, "editedMessage": None}}
    assert only(upsert(revoke)).parts == ("A",)


def test_one_message_may_stand_where_its_array_should() -> None:
    element = {"key": KEY, "message": {"conversation": "a"}}
    assert only(read("messages.upsert", {"messages": element, "type": "notify"})).kind == "message"
