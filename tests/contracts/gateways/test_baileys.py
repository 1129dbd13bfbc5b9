"""Facts about messages in the Baileys reader, one a test; the names say what must hold."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from contracts.events import Fold
from contracts.gateways import baileys
from tests.contracts.gateways.baileys_bodies import ALL_EVENTS, CHAT, KEY, collect, only, read, upsert


@pytest.mark.parametrize(("name", "data", "kinds"), ALL_EVENTS, ids=[row[0] for row in ALL_EVENTS])
def test_every_event_of_the_map_has_its_kind(name: str, data: object, kinds: list[str]) -> None:
    reading = read(name, data)
    assert [event.kind for event in reading.events] == kinds
    assert {event.type for event in reading.events} == {name}
    shouted = name.replace(".", "_").replace("-", "_").upper()
    again = read(shouted, data)
    assert [(event.parts, event.type) for event in again.events] == [
        (event.parts, name) for event in reading.events
    ]


@pytest.mark.parametrize("data", [{"noiseKey": {"private": "segredo"}}, None, [1], "segredo"])
def test_credentials_are_counted_and_never_an_event(data: object) -> None:
    reading = read("creds.update", data)
    assert (reading.events, reading.counted) == ((), (("secret", 1),))


def test_an_unknown_event_is_stored_under_its_own_name() -> None:
    event = only(read("messages.pinned", {"id": CHAT}))
    assert (event.kind, event.type, event.path) == ("unknown", "messages.pinned", ("data",))
    assert event.fold is Fold.NONE


@pytest.mark.parametrize("body", [None, 1, "x", [], {}, {"data": 1}, {"event": ""}, {"event": {"a": 1}}])
def test_what_names_no_event_is_one_unknown_whole_body(body: object) -> None:
    event = only(baileys.read(body))
    assert (event.kind, event.type, event.path) == ("unknown", "unknown", ())


@pytest.mark.parametrize(
    ("message", "stub", "variant"),
    [
        ({"conversation": "oi"}, None, "content"),
        ({"conversation": ""}, None, "content"),
        ({"secretEncryptedMessage": {"targetMessageKey": KEY}}, None, "content"),
        ({"call": {"callKey": "AQI="}}, None, "content"),
        (None, 1, "stub:1"),
        (None, None, "stub:none"),
        ({}, "CIPHERTEXT", "stub:2"),
        ({"senderKeyDistributionMessage": {}, "messageContextInfo": {}}, 2, "stub:2"),
        ({"messageContextInfo": {}}, None, "stub:none"),
        (None, "CALL_MISSED_VOICE", "stub:40"),
        (None, "40", "stub:40"),
        (None, "A_NEW_ONE", "stub:A_NEW_ONE"),
    ],
)
def test_content_and_stub_are_told_apart(message: object, stub: object, variant: str) -> None:
    event = only(upsert(message, messageStubType=stub))
    assert event.kind == ("message" if variant == "content" else "message.stub")
    assert event.parts == (CHAT, "3EB0A1", False, variant)
    assert (event.digest is not None) == (variant == "content")


def test_a_direct_chat_is_no_part_of_a_message() -> None:
    spellings = [
        {
            "remoteJid": "100000000000002@lid",
            "remoteJidAlt": "5511900000002@s.whatsapp.net",
            "participant": "",
        },
        {"remoteJid": "5511900000002@s.whatsapp.net", "addressingMode": "pn"},
        {"remoteJid": "5511900000002:5@s.whatsapp.net", "senderLid": "100000000000002@lid"},
    ]
    parts = {only(upsert({"conversation": "oi"}, key={"id": "A", **key})).parts for key in spellings}
    assert parts == {("direct", "A", False, "content")}


@pytest.mark.parametrize("identifier", [None, "", {}, [], 1.5])
def test_without_an_id_chat_author_time_and_content_stand_for_it(identifier: object) -> None:
    key = {"remoteJid": CHAT, "id": identifier, "participant": "5521900000003:4@s.whatsapp.net"}
    event = only(upsert({"conversation": "oi"}, key={**key, "participantAlt": "100000000000003@lid"}))
    assert event.parts[:5] == (CHAT, False, "100000000000003@lid", 1764950400, "content")
    assert event.flags == ("synthetic_id",)
    assert not event.needs_stamp
    again = only(
        upsert({"conversation": "oi"}, key={**key, "participantAlt": "100000000000003@lid"}, pushName="B")
    )
    other = only(upsert({"conversation": "tchau"}, key={**key, "participantAlt": "100000000000003@lid"}))
    assert event.parts == again.parts != other.parts


@pytest.mark.parametrize("time", [None, 0, "", {}, "amanhã", float("nan")])
def test_without_id_and_time_the_occurrence_stands_in(time: object) -> None:
    event = only(upsert({"conversation": "oi"}, key={"remoteJid": CHAT}, messageTimestamp=time))
    assert event.needs_stamp
    assert event.occurred_at is None


def test_a_status_of_an_own_message_is_a_second_fact_with_a_payload_of_its_own() -> None:
    own = {**KEY, "fromMe": True}
    message, status = upsert({"conversation": "oi"}, key=own, status=3).events
    assert (message.kind, message.path) == ("message", ("data", "messages", 0))
    assert (status.kind, status.path) == ("message.status", None)
    assert status.parts == ("3EB0A1", "DELIVERY_ACK", None)
    assert status.payload is not None
    assert json.loads(status.payload) == {
        "key": {"remoteJid": CHAT, "fromMe": True, "id": "3EB0A1", "participant": "100000000000003@lid"},
        "status": "DELIVERY_ACK",
    }


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ({**KEY, "fromMe": False}, {"status": 4}),
        ({**KEY, "fromMe": True}, {"status": 1}),
        ({**KEY, "fromMe": True}, {"status": "ERROR"}),
        ({**KEY, "fromMe": True}, {"status": None}),
        ({**KEY, "fromMe": True}, {"status": 2, "category": "peer"}),
    ],
)
def test_no_second_fact_without_an_own_acknowledged_message(key: object, more: dict[str, object]) -> None:
    assert only(upsert({"conversation": "oi"}, key=key, **more)).kind == "message"


def test_the_receipt_that_overwrote_a_drained_upsert_makes_its_time_doubtful() -> None:
    own = {**KEY, "fromMe": True}
    drained = upsert({"conversation": "oi"}, kind="append", key=own, status=4).events[0]
    live = upsert({"conversation": "oi"}, kind="notify", key=own, status=4).events[0]
    assert (drained.flags, live.flags) == (("time_doubtful",), ())
    assert drained.parts == live.parts


@pytest.mark.parametrize(
    "wrapper", ["ephemeralMessage", "viewOnceMessageV2", "deviceSentMessage", "editedMessage"]
)
def test_reactions_votes_and_protocol_messages_are_found_in_wrappers(wrapper: str) -> None:
    said = {
        "reaction": {"reactionMessage": {"key": KEY, "text": "x"}},
        "poll.vote": {"pollUpdateMessage": {"pollCreationMessageKey": KEY}},
        "message.revoke": {"protocolMessage": {"key": {"id": "T1"}, "type": 0}},
    }
    for kind, message in said.items():
        assert only(upsert({wrapper: {"message": message}})).kind == kind


def test_the_revoke_of_one_target_is_one_fact_whoever_carries_it() -> None:
    by_message = only(upsert({"protocolMessage": {"key": {"id": "T1"}, "type": "REVOKE"}}))
    update = {"message": None, "messageStubType": 1, "key": {**KEY, "id": "R1"}}
    by_update = only(read("messages.update", [{"key": {**KEY, "id": "T1"}, "update": update}]))
    assert by_message.parts == by_update.parts == ("T1",)
    assert by_message.kind == by_update.kind == "message.revoke"


def test_a_revoke_without_target_is_known_by_its_carrier() -> None:
    event = only(upsert({"protocolMessage": {"type": "REVOKE"}}))
    assert (event.kind, event.parts) == ("message.revoke", ("3EB0A1",))


def test_other_protocol_messages_with_an_id_are_messages() -> None:
    event = only(upsert({"protocolMessage": {"type": "EPHEMERAL_SETTING", "ephemeralExpiration": 604800}}))
    assert (event.kind, event.parts) == ("message", (CHAT, "3EB0A1", False, "content"))
    keyless = only(upsert({"protocolMessage": {"type": 3}}, key={"remoteJid": CHAT}))
    assert (keyless.kind, keyless.parts[0]) == ("message.protocol", "EPHEMERAL_SETTING")
    assert keyless.needs_stamp


def test_an_edit_is_target_new_content_and_time() -> None:
    edit = {
        "key": {"id": "T1"},
        "type": 14,
        "editedMessage": {"conversation": "b"},
        "timestampMs": "1764950760123",
    }
    event = only(upsert({"protocolMessage": edit}))
    folded = {"extendedTextMessage": {"text": "b"}}
    wrapped = only(
        upsert({"editedMessage": {"message": {"protocolMessage": {**edit, "editedMessage": folded}}}})
    )
    assert event.kind == wrapped.kind == "message.edit"
    assert event.parts == wrapped.parts
    assert (event.parts[0], event.parts[2]) == ("T1", 1764950760)
    assert event.occurred_at == datetime(2025, 12, 5, 16, 6, 0, 123000, tzinfo=UTC)
    assert event.digest is None


def test_edits_and_flags_a_b_a_are_three_rows_and_repetitions_in_a_row_are_one() -> None:
    def edit(text: str) -> dict[str, object]:
        update = {"message": {"editedMessage": {"message": {"conversation": text}}}}
        return {"event": "messages.update", "data": [{"key": KEY, "update": update}]}

    def star(on: bool) -> dict[str, object]:
        return {"event": "messages.update", "data": [{"key": KEY, "update": {"starred": on}}]}

    assert len(collect(edit("a"), edit("a"), edit("b"), edit("a")).rows) == 3
    assert len(collect(star(True), star(True), star(False), star(True)).rows) == 3


def test_an_update_with_status_and_flag_loses_neither() -> None:
    flag, status = read("messages.update", [{"key": KEY, "update": {"starred": True, "status": 4}}]).events
    assert (flag.kind, flag.path) == ("message.flag", ("data", 0))
    assert (status.kind, status.path) == ("message.status", None)
    assert status.payload is not None


def test_a_nack_carries_its_code_and_a_content_update_no_status() -> None:
    update = {"status": 0, "messageStubParameters": ["463", "restricted"]}
    assert only(read("messages.update", [{"key": KEY, "update": update}])).parts == ("3EB0A1", "ERROR", "463")
    content = {"message": {"conversation": "b"}, "status": 2}
    assert only(read("messages.update", [{"key": KEY, "update": content}])).kind == "message.edit.echo"


@pytest.mark.parametrize("update", [{}, {"userReceipt": [{"userJid": "1@lid"}]}, None])
def test_an_update_that_says_nothing_known_is_still_stored(update: object) -> None:
    event = only(read("messages.update", [{"key": KEY, "update": update}]))
    assert (event.kind, event.parts[:2]) == ("message.flag", ("3EB0A1", "update"))


def test_a_reaction_is_its_own_id_in_both_carriers_and_without_one_person_and_time() -> None:
    said = {"key": {"id": "T1"}, "text": "👍", "senderTimestampMs": "1764950530321"}
    by_message = only(upsert({"reactionMessage": said}))
    by_event = only(read("messages.reaction", [{"key": {"id": "T1"}, "reaction": {**said, "key": KEY}}]))
    assert by_message.parts == by_event.parts == ("3EB0A1",)
    keyless = only(upsert({"reactionMessage": said}, key={"remoteJid": CHAT, "participant": "1@lid"}))
    assert keyless.parts == ("T1", "1@lid", "👍", 1764950530)
    assert keyless.flags == ("synthetic_id",)


def test_a_member_label_is_one_fact_by_event_and_by_message() -> None:
    tag = {
        "groupId": CHAT,
        "participant": "100000000000003@lid",
        "label": "mentora",
        "messageTimestamp": 1764950400,
    }
    by_event = only(read("group.member-tag.update", tag))
    change = {"type": 30, "memberLabel": {"label": "mentora", "labelTimestamp": 1764950398}}
    by_message = only(upsert({"protocolMessage": change}))
    assert by_event.parts == by_message.parts == (CHAT, "100000000000003@lid", "mentora", 1764950400)
    assert by_event.chat_jid == CHAT
    removal = only(upsert({"protocolMessage": {"type": 30, "memberLabel": {}}}))
    assert removal.parts == (CHAT, "100000000000003@lid", "", 1764950400)
