"""WAHA's bodies by the identity table: which fact, which parts, what is never part of it."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.events import OCCURRENCE, Event, Fold
from contracts.gateways import waha
from contracts.gateways.wahakeys import split_id
from contracts.identity import event_id, stamp_occurrence

GROUP = "120363000000000010@g.us"
ANA = "5511900000002@c.us"
BETO = "100000000000003@lid"


def body(event: str, payload: object, **envelope: object) -> dict[str, object]:
    return {
        "id": "evt_01jd0000000000000000000001",
        "timestamp": 1764950400123,
        "event": event,
        "session": "default",
        "payload": payload,
        "engine": "NOWEB",
        **envelope,
    }


def facts(event: str, payload: object, **envelope: object) -> tuple[Event, ...]:
    return waha.read(body(event, payload, **envelope), path_instance="default").events


def fact(event: str, payload: object, **envelope: object) -> Event:
    (only,) = facts(event, payload, **envelope)
    return only


def identity(event: Event) -> str:
    occurrence = stamp_occurrence("e", 1) if event.needs_stamp else event.occurrence
    return event_id("waha/default", event.kind, event.parts, occurrence)


def message(own_id: str = f"false_{ANA}_3A01", **members: object) -> dict[str, object]:
    return {"id": own_id, "timestamp": 1764950400, "from": ANA, "fromMe": False, "body": "Oi"} | members


@pytest.mark.parametrize(
    ("text", "chat", "own", "from_me", "author"),
    [
        (f"false_{ANA}_3A01", "5511900000002@s.whatsapp.net", "3A01", False, None),
        (f"true_{GROUP}_3EB0_{BETO}", GROUP, "3EB0", True, BETO),
        (f"true_{GROUP}_AB_CD_{BETO}", GROUP, "AB_CD", True, BETO),
        (f"true_{ANA}_AB_CD", "5511900000002@s.whatsapp.net", "AB_CD", True, None),
        (f"false_status@broadcast_3E_{ANA}", "status@broadcast", "3E", False, "5511900000002@s.whatsapp.net"),
        ("false_123@newsletter_3E", "123@newsletter", "3E", False, None),
        ("3EB0A1B2", None, "3EB0A1B2", False, None),
        ("true_noat_3EB0", None, "true_noat_3EB0", False, None),
        (f"true_{ANA}_", None, f"true_{ANA}_", False, None),
    ],
)
def test_the_third_part_of_an_id_is_whatsapps_own(
    text: str, chat: str | None, own: str, from_me: bool, author: str | None
) -> None:
    key = split_id(text)
    assert (key.chat, key.id, key.from_me, key.author) == (chat, own, from_me, author)


def test_an_id_may_be_an_object_of_webjs() -> None:
    whole = {"fromMe": True, "remote": ANA, "id": "3A01", "_serialized": f"true_{ANA}_3A01"}
    parts = {name: value for name, value in whole.items() if name != "_serialized"}
    assert split_id(whole) == split_id(parts) == split_id(f"true_{ANA}_3A01")


def test_message_and_message_any_are_one_message_whatever_the_chats_spelling() -> None:
    plain = fact("message", message())
    other = fact(
        "message.any",
        message(f"false_{BETO}_3A01", ack=3, _data={"x": 1}, timestamp=1764950999, source="app"),
        id="evt_01jd0000000000000000000002",
        me={"id": ANA},
        engine="GOWS",
    )
    assert identity(plain) == identity(other)
    assert plain.parts == ("direct", "3A01", False, "content")
    assert plain.digest == other.digest
    assert plain.digest is not None
    assert len(plain.digest) == 16
    assert plain.occurred_at == datetime(2025, 12, 5, 16, 0, tzinfo=UTC)
    assert plain.occurred_from == "message"
    assert plain.chat_jid == "5511900000002@s.whatsapp.net"


def test_groups_broadcasts_and_from_me_keep_messages_apart() -> None:
    ids = {
        identity(facts("message", message(f"{mine}_{chat}_3A01"))[0])
        for mine in ("true", "false")
        for chat in (ANA, GROUP, "status@broadcast", "1@newsletter")
    }
    assert len(ids) == 8


def test_other_content_under_one_id_has_another_digest() -> None:
    assert fact("message", message()).digest != fact("message", message(body="Olá")).digest
    here, there = ({"latitude": latitude, "longitude": 2.5} for latitude in (1.5, 9.5))
    digests = {fact("message", message(body="", location=place)).digest for place in (here, there)}
    assert len(digests) == 2


def test_a_message_without_id_is_told_apart_by_what_it_says() -> None:
    nameless = {"timestamp": 1764950400, "from": ANA, "fromMe": False, "body": "Oi"}
    first, again = fact("message", nameless), fact("message.any", nameless | {"ack": 1})
    other = fact("message", nameless | {"body": "Olá"})
    assert identity(first) == identity(again) != identity(other)
    assert first.flags == ("synthetic_id",)


@pytest.mark.parametrize(
    ("ack", "name", "status"),
    [
        (-1, "ERROR", "ERROR"),
        (0, "PENDING", "PENDING"),
        (1, "SERVER", "SERVER_ACK"),
        (2, "DEVICE", "DELIVERY_ACK"),
        (3, "READ", "READ"),
        (4, "PLAYED", "PLAYED"),
    ],
)
def test_an_ack_is_a_status_by_number_or_name(ack: int, name: str, status: str) -> None:
    by_number = fact("message.ack", {"id": f"true_{ANA}_3A01", "ack": ack, "ackName": name, "fromMe": True})
    by_name = fact("message.ack", {"id": f"true_{BETO}_3A01", "ackName": name, "participant": None})
    assert by_number.kind == "message.status"
    assert by_number.parts == by_name.parts == ("3A01", status, None)


def test_an_acknowledged_message_of_ours_states_its_status_too() -> None:
    mine = facts("message.any", message(f"true_{ANA}_3A01", fromMe=True, ack=1))
    assert [event.kind for event in mine] == ["message", "message.status"]
    ack = fact("message.ack", {"id": f"true_{ANA}_3A01", "ack": 1, "fromMe": True})
    assert identity(mine[1]) == identity(ack)
    assert json.loads(mine[1].payload or b"") == {
        "key": {"remoteJid": "5511900000002@s.whatsapp.net", "fromMe": True, "id": "3A01"},
        "status": "SERVER_ACK",
    }
    assert len(facts("message.any", message(f"true_{ANA}_3A01", fromMe=True, ack=0))) == 1
    assert len(facts("message.any", message(f"true_{ANA}_3A01", fromMe=True, ack=-1))) == 1
    assert len(facts("message.any", message(ack=3))) == 1


def test_each_members_ack_in_a_group_is_a_receipt() -> None:
    def ack(own_id: str, number: int, **more: object) -> Event:
        return fact("message.ack.group", {"id": own_id, "ack": number, "fromMe": True} | more)

    read_by_beto = ack(f"true_{GROUP}_3EB0_{BETO}", 3, participant=BETO)
    assert read_by_beto.parts == ("3EB0", BETO, "read")
    assert ack(f"true_{GROUP}_3EB0", 2, participant=ANA).parts == (
        "3EB0",
        "5511900000002@s.whatsapp.net",
        "delivered",
    )
    assert ack(f"true_{GROUP}_3EB0_{BETO}", 4).parts == ("3EB0", BETO, "played")


def test_members_stay_apart_where_the_id_names_ourselves() -> None:
    own_id = "true_120363000000000010@g.us_3EB0_5511900000001@c.us"
    people = ["5511900000002@c.us", "5511900000003@c.us", "100000000000004@lid", "5511900000002:3@c.us"]
    acks = [fact("message.ack.group", {"id": own_id, "participant": who, "ack": 3}) for who in people]
    assert [ack.parts[1] for ack in acks] == [
        "5511900000002@s.whatsapp.net",
        "5511900000003@s.whatsapp.net",
        "100000000000004@lid",
        "5511900000002@s.whatsapp.net",
    ]


def test_what_waha_fetched_is_a_second_fact() -> None:
    data = base64.b64encode(b"\xff\xd8\xff").decode()
    media = {"mimetype": "image/jpeg", "data": data, "url": "http://127.0.0.1/a.jpg?sig=1"}
    whole, blob, link = facts("message", message(hasMedia=True, media=media))
    assert blob.parts == ("3A01", hashlib.sha256(b"\xff\xd8\xff").hexdigest(), "blob")
    assert link.parts == ("3A01", None, "link")
    assert data.encode() not in (blob.payload or b"")
    assert b"a.jpg" in (link.payload or b"")
    moved = media | {"url": "http://127.0.0.1/a.jpg?sig=2"}
    assert identity(facts("message", message(hasMedia=True, media=moved))[2]) == identity(link)
    without = fact("message", message(hasMedia=True, media=None))
    assert identity(without) == identity(whole)
    assert without.digest == whole.digest


def test_reactions_are_known_by_their_own_id() -> None:
    def react(own_id: str, text: object, timestamp: object) -> Event:
        reaction = {"text": text, "messageId": f"false_{GROUP}_3EB0_{BETO}"}
        return fact("message.reaction", {"id": own_id, "timestamp": timestamp, "reaction": reaction})

    thumb = react(f"false_{GROUP}_3EBR1_{BETO}", "👍", 1764950530.321)
    assert thumb.kind == "reaction"
    assert thumb.parts == ("3EBR1",)
    assert thumb.occurred_at == datetime(2025, 12, 5, 16, 2, 10, 321000, tzinfo=UTC)
    assert react(f"false_{GROUP}_3EBR2_{BETO}", "", 1764950531).parts == ("3EBR2",)
    bare = fact(
        "message.reaction",
        {
            "timestamp": 1764950530.321,
            "participant": BETO,
            "from": GROUP,
            "reaction": {"text": "👍", "messageId": "3EB0"},
        },
    )
    assert bare.parts == ("3EB0", BETO, "👍", 1764950530)


def test_an_edit_is_its_target_its_new_text_and_its_time() -> None:
    def edit(target: object, text: str, timestamp: object = 1764950760) -> Event:
        payload = {"id": f"false_{GROUP}_3EDIT_{BETO}", "body": text, "timestamp": timestamp}
        return fact("message.edited", payload | {"editedMessageId": target})

    first = edit("3EB0", "às 16h")
    assert first.kind == "message.edit"
    digest = fact("message", message(body="às 16h")).digest or b""
    assert first.parts == ("3EB0", digest.hex(), 1764950760)
    assert first.parts == edit(f"false_{GROUP}_3EB0_{BETO}", "às 16h").parts
    assert (
        len({identity(edit("3EB0", text, at)) for text in ("a", "b") for at in (1764950760, 1764950761)}) == 4
    )
    timeless = edit("3EB0", "às 16h", None)
    assert timeless.kind == "message.edit.echo"
    assert timeless.parts[2] is OCCURRENCE
    assert edit(None, "às 16h").kind == "unknown"


def test_a_revoke_is_its_target() -> None:
    after = {"id": f"false_{GROUP}_3EREV_{BETO}", "timestamp": 1764950880}
    before = {"id": f"false_{GROUP}_3EB0_{BETO}"}
    told = fact("message.revoked", {"after": after, "before": None, "revokedMessageId": "3EB0"})
    assert told.kind == "message.revoke"
    assert told.parts == ("3EB0",)
    assert told.chat_jid == GROUP
    assert fact("message.revoked", {"after": after, "before": before}).parts == ("3EB0",)
    assert fact("message.revoked", {"after": after, "before": None}).parts == ("3EREV",)


def test_a_message_that_waits_never_hides_its_content() -> None:
    waiting = fact("message.waiting", message(body=None))
    content = fact("message", message())
    assert waiting.kind == "message.stub"
    assert waiting.parts == ("direct", "3A01", False, "stub:2")
    assert waiting.digest is None
    assert identity(waiting) != identity(content)


def test_a_vote_that_could_not_be_read_never_hides_the_readable_one() -> None:
    vote = {"vote": {"id": f"false_{GROUP}_3EV_{BETO}", "selectedOptions": []}, "poll": {"id": "3EP"}}
    assert fact("poll.vote", vote).parts == ("3EV",)
    failed = fact("poll.vote.failed", vote)
    assert failed.kind == "poll.vote"
    assert identity(failed) != identity(fact("poll.vote", vote))


def test_an_event_response_is_a_message_like_any_other() -> None:
    answer = {"id": f"false_{GROUP}_3ER_{BETO}", "eventResponse": {"response": "GOING"}}
    assert fact("event.response", answer).parts == (GROUP, "3ER", False, "content")
    assert fact("event.response.failed", answer).kind == "message"


def test_session_states_keep_their_times_apart() -> None:
    def session(status: str, *times: int) -> Event:
        statuses = [{"status": status, "timestamp": time} for time in times]
        return fact("session.status", {"name": "default", "status": status, "statuses": statuses})

    working = session("WORKING", 1764950395000, 1764950400000)
    assert working.kind == "connection"
    assert working.parts[0] == "WORKING"
    assert working.occurrence == "1764950400000"
    assert identity(working) == identity(session("WORKING", 1764950400000))
    assert identity(working) != identity(session("WORKING", 1764950400999))
    assert identity(working) != identity(session("STOPPED", 1764950400000))


def test_the_occurrence_falls_back_from_payload_to_event_id_to_the_senders_stamp() -> None:
    change = {"state": "CONNECTED"}
    assert fact("state.change", change | {"timestamp": 1764950400}).occurrence == "1764950400"
    assert fact("state.change", change | {"timestamp": 1764950400.5}).occurrence == "1764950400.5"
    assert fact("state.change", change | {"timestamp": "1764950400"}).occurrence == "1764950400"
    assert fact("state.change", change).occurrence == "evt_01jd0000000000000000000001"
    assert fact("state.change", change, id=None, at=1764950400, seq=7).occurrence == (1764950400, 7)
    bare = fact("state.change", change, id=None)
    assert bare.needs_stamp
    assert bare.fold is Fold.TRANSITION
    assert bare.members
    assert fact("state.change", "CONNECTED", id=None).parts == bare.parts


def test_calls_have_whatsapps_own_states() -> None:
    call = {"id": "CALL0001AAAA", "from": ANA, "timestamp": 1764952200, "isVideo": False}
    statuses = [fact(f"call.{name}", call).parts for name in ("received", "accepted", "rejected")]
    assert statuses == [("CALL0001AAAA", name) for name in ("OFFER", "ACCEPT", "REJECT")]
    assert identity(fact("call.received", call)) == identity(
        fact("call.received", call | {"timestamp": 1, "_data": {}})
    )


def test_groups_labels_and_chats_by_name() -> None:
    group = {"group": {"id": GROUP, "subject": "Equipe"}, "timestamp": 1764951000}
    assert fact("group.v2.update", group).kind == "group.metadata"
    assert fact("group.v2.update", group).parts[0] == GROUP
    joined = fact("group.v2.participants", group | {"type": "join", "participants": [{"id": BETO}]})
    assert (joined.kind, joined.parts[:2]) == ("group.participants", (GROUP, "join"))
    for name in ("group.v2.join", "group.v2.leave", "group.join", "group.leave"):
        ours = fact(name, group)
        assert (ours.kind, ours.parts[:2]) == ("group.participants", (GROUP, name.rpartition(".")[2]))
    tagged = {"labelId": "3", "chatId": ANA, "label": None}
    added, removed = fact("label.chat.added", tagged), fact("label.chat.deleted", tagged)
    chat = "5511900000002@s.whatsapp.net"
    assert added.parts[:4] == (chat, None, "3", "add")
    assert removed.parts[:4] == (chat, None, "3", "remove")
    label = {"id": "3", "name": "Cliente novo", "color": 4}
    assert identity(fact("label.upsert", label)) != identity(fact("label.deleted", label))
    assert fact("label.deleted", label, id=None).fold is Fold.CLEAR
    archived = {"id": ANA, "archived": True, "timestamp": 1764951000}
    assert (fact("chat.archive", archived).kind, fact("chat.archive", archived).parts[0]) == ("chat", chat)
    assert identity(fact("chat.archive", archived)) != identity(
        fact("chat.archive", archived | {"archived": False})
    )


def test_presence_is_a_signal_of_each_person() -> None:
    people = [{"participant": BETO, "lastKnownPresence": "typing"}, {"participant": ANA}]
    first, second = facts("presence.update", {"id": GROUP, "presences": people})
    assert first.kind == second.kind == "presence"
    assert first.parts[:3] == (GROUP, BETO, "typing")
    nobody = waha.read(body("presence.update", {"id": GROUP, "presences": []}))
    assert (nobody.events, nobody.counted) == ((), (("empty", 1),))


def test_an_engines_secrets_are_cut() -> None:
    qr = fact(
        "engine.event", {"event": "connection.update", "data": {"qr": "2@INVENTADO", "isOnline": False}}
    )
    assert qr.kind == "gateway.notice"
    assert qr.cuts == (("data", "qr"),)
    assert fact("engine.event", {"event": "creds.update", "data": {"me": {}}}).cuts == (("data",),)
    share = {"protocolMessage": {"type": 6, "appStateSyncKeyShare": {"keys": []}}}
    upsert = {"event": "messages.upsert", "data": {"messages": [{"message": {}}, {"message": share}]}}
    assert fact("engine.event", upsert).cuts == (
        ("data", "messages", 1, "message", "protocolMessage", "appStateSyncKeyShare"),
    )
    shown = {"event": "connection.update", "data": {"isOnline": False}}
    assert fact("engine.event", shown).parts == qr.parts


def test_what_is_not_known_is_stored_and_stands_for_itself() -> None:
    first = fact("message.levitated", {"a": 1})
    assert first.kind == "unknown"
    assert first.path == ("payload",)
    assert first.type == "message.levitated"
    assert identity(first) != identity(fact("message.levitated", {"a": 2}))
    odd: list[object] = [None, [], "x", 7, {}, {"event": 5}, {"event": None, "payload": 1}]
    for strange in odd:
        (only,) = waha.read(strange).events
        assert only.kind == "unknown"
    assert fact("message", "Oi").kind == "unknown"
    assert fact("message", {}).kind == "unknown"


def test_the_instance_is_the_paths_and_the_envelope_leaves_the_payload_out() -> None:
    reading = waha.read(body("message", message()), path_instance="loja")
    assert reading.instance is None
    assert reading.data_path == ("payload",)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    LEAVES | st.sampled_from([ANA, GROUP, f"false_{GROUP}_3EB0_{BETO}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.sampled_from(
    [
        *("id", "timestamp", "from", "to", "fromMe", "participant", "body", "media", "mediaUrl", "ack"),
        *("ackName", "reaction", "editedMessageId", "after", "before", "revokedMessageId", "vote", "poll"),
        *("status", "statuses", "state", "group", "participants", "type", "labelId", "chatId", "presences"),
        *("event", "data", "messageId", "name"),
    ]
)
EVENTS = st.sampled_from([*sorted(waha.TOPICS), "state.change", "message.levitated"])
PAYLOADS = JSON | st.dictionaries(MEMBERS, JSON, max_size=6)


@given(st.builds(body, EVENTS, PAYLOADS, id=JSON) | JSON)
def test_any_json_gives_facts_with_an_identity_and_a_place(value: object) -> None:
    reading = waha.read(value, path_instance="default")
    assert reading.events or reading.counted
    for event in reading.events:
        assert len(identity(event)) == 36
        assert (event.path is None) != (event.payload is None)
        place: Any = value
        for step in event.path or ():
            place = place[step]
