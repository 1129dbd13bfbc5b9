"""Cloud API's bodies by the identity table: batches, statuses, notices, people without a phone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.events import OCCURRENCE, Event, Fold
from contracts.gateways import cloudapi
from contracts.identity import event_id, stamp_occurrence

ACCOUNT = "100000000000777"
PHONE = "200000000000888"
SHA256 = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="


def change(phone: str = PHONE, field: str = "messages", **value: object) -> dict[str, object]:
    metadata = (
        {} if phone is None else {"metadata": {"display_phone_number": "55119", "phone_number_id": phone}}
    )
    return {"field": field, "value": {"messaging_product": "whatsapp", **metadata, **value}}


def entry(*changes: object, **members: object) -> dict[str, object]:
    return {"id": ACCOUNT, "changes": list(changes), **members}


def body(*entries: object) -> dict[str, object]:
    return {"object": "whatsapp_business_account", "entry": list(entries)}


def facts(*changes: object, **members: object) -> tuple[Event, ...]:
    return cloudapi.read(body(entry(*changes, **members))).events


def fact(*changes: object, **members: object) -> Event:
    (only,) = facts(*changes, **members)
    return only


def text(own_id: str | None = "wamid.A", **members: object) -> dict[str, object]:
    named = {} if own_id is None else {"id": own_id}
    said = {"from": "5511900000002", "timestamp": "1764950400", "type": "text", "text": {"body": "Oi"}}
    return said | named | members


def identity(event: Event) -> str:
    occurrence = stamp_occurrence("e", 1) if event.needs_stamp else event.occurrence
    return event_id(f"cloudapi/{PHONE}", event.kind, event.parts, occurrence)


def at(value: Any, event: Event) -> object:
    assert event.path is not None
    for step in event.path:
        value = value[step]
    return value


def test_a_message_is_its_wamid() -> None:
    first = fact(change(messages=[text()]))
    assert first.kind == "message"
    assert first.type == "messages"
    assert first.parts == ("direct", "wamid.A", False, "content")
    assert first.chat_jid == "5511900000002@s.whatsapp.net"
    assert first.occurred_at == datetime(2025, 12, 5, 16, 0, tzinfo=UTC)
    assert first.occurred_from == "message"
    later = text(timestamp="1764950999", context={"id": "wamid.Z"}, **{"from": "551190000002"})
    assert identity(first) == identity(fact(change(messages=[later])))


def test_every_entry_change_message_and_status_is_read_in_order() -> None:
    whole = body(
        entry(change(messages=[text("wamid.A"), text("wamid.B")]), change(messages=[text("wamid.C")])),
        entry(change(statuses=[{"id": "wamid.D", "status": "sent"}, {"id": "wamid.D", "status": "read"}])),
    )
    events = cloudapi.read(whole).events
    assert [event.parts[1] for event in events] == ["wamid.A", "wamid.B", "wamid.C", "SERVER_ACK", "READ"]
    ids = [element["id"] for element in (at(whole, event) for event in events) if isinstance(element, dict)]
    assert ids == ["wamid.A", "wamid.B", "wamid.C", "wamid.D", "wamid.D"]


def test_a_digest_tells_text_caption_and_file_apart() -> None:
    def image(**members: object) -> bytes | None:
        return fact(change(messages=[text(type="image", text=None, image=members)])).digest

    assert fact(change(messages=[text()])).digest == fact(change(messages=[text("wamid.B")])).digest
    assert image(id="1", caption="Oi") == fact(change(messages=[text()])).digest
    digests = {
        fact(change(messages=[text(text={"body": "Olá"})])).digest,
        image(id="1", caption="Oi"),
        image(id="1", caption="Oi", sha256=SHA256),
        image(id="1", sha256=SHA256),
        image(id="1"),
    }
    assert len(digests) == 5
    assert image(id="1", sha256=SHA256) == image(id="2", sha256=SHA256, mime_type="image/jpeg")


def test_a_person_may_have_no_phone() -> None:
    said = text(from_user_id="BR.1000000000000002", **{"from": None})
    contacts = [{"profile": {"name": "Ana"}, "user_id": "BR.1000000000000002"}]
    event = fact(change(messages=[said], contacts=contacts))
    assert event.chat_jid is None
    assert event.context["contact"] == ("entry", 0, "changes", 0, "value", "contacts", 0)
    assert fact(change(messages=[text(**{"from": "abc"})])).chat_jid is None


def test_a_message_without_id_is_told_apart_by_what_it_says() -> None:
    first, again = (fact(change(messages=[text(None)])) for _ in range(2))
    other = fact(change(messages=[text(None, text={"body": "Olá"})]))
    assert first.flags == ("synthetic_id",)
    assert identity(first) == identity(again) != identity(other)


def test_reactions_are_known_by_their_own_wamid() -> None:
    def react(own_id: str | None, **members: object) -> Event:
        reaction = {"message_id": "wamid.T", **members}
        return fact(change(messages=[text(own_id, type="reaction", reaction=reaction)]))

    assert react("wamid.R1", emoji="👍").parts == ("wamid.R1",)
    assert react("wamid.R2").parts == ("wamid.R2",)
    assert react("wamid.R1", emoji="👍").kind == "reaction"
    person = "5511900000002@s.whatsapp.net"
    assert react(None).parts == ("wamid.T", person, "", 1764950400)


@pytest.mark.parametrize(
    ("status", "canonical"),
    [
        ("sent", "SERVER_ACK"),
        ("delivered", "DELIVERY_ACK"),
        ("read", "READ"),
        ("failed", "ERROR"),
        ("deleted", "DELETED"),
        ("played", "PLAYED"),
        ("warning", "WARNING"),
    ],
)
def test_a_status_has_its_canonical_name(status: str, canonical: str) -> None:
    told = {"id": "wamid.A", "status": status, "timestamp": "1764950405", "recipient_id": "5511900000002"}
    event = fact(change(statuses=[told]))
    assert event.kind == "message.status"
    assert event.parts == ("wamid.A", canonical, None)
    assert event.chat_jid == "5511900000002@s.whatsapp.net"
    later = told | {"timestamp": "1764950999", "pricing": {"billable": True}}
    assert identity(event) == identity(fact(change(statuses=[later])))


def test_a_failure_carries_its_first_errors_code_as_text() -> None:
    failed = {"id": "wamid.A", "status": "failed"}
    coded = fact(change(statuses=[failed | {"errors": [{"code": 131026}, {"code": 1}]}]))
    assert coded.parts == ("wamid.A", "ERROR", "131026")
    assert fact(change(statuses=[failed | {"errors": []}])).parts == ("wamid.A", "ERROR", None)


def test_a_status_without_its_message_is_never_merged_with_another() -> None:
    ids = {identity(fact(change(statuses=[{"status": "sent", "recipient_id": str(n)}]))) for n in range(2)}
    assert len(ids) == 2
    timed = fact(change(statuses=[{"status": "sent", "timestamp": "1764950405"}]), time=1764950999)
    assert timed.occurrence == "1764950405"
    assert fact(change(statuses=[{"status": "sent"}]), time=1764950999).occurrence == "1764950999"


def test_echoes_of_the_phones_own_app_are_ours() -> None:
    said = text(to="5511900000002", **{"from": "5511900000001"})
    echo = fact(change(field="smb_message_echoes", message_echoes=[said]))
    assert echo.parts == ("direct", "wamid.A", True, "content")
    assert echo.chat_jid == "5511900000002@s.whatsapp.net"


def test_system_and_unsupported_messages_are_content() -> None:
    for members in (
        {"type": "system", "system": {"body": "x"}},
        {"type": "unsupported", "errors": [{"code": 1}]},
    ):
        assert fact(change(messages=[text(**members)])).kind == "message"


def test_errors_alone_are_notices() -> None:
    event = fact(change(errors=[{"code": 130429, "title": "Rate limit hit"}]))
    assert (event.kind, event.type) == ("account.notice", "errors")
    assert event.needs_stamp
    assert event.fold is Fold.TRANSITION
    timed = fact(change(errors=[{"code": 130429}]), time=1764950400)
    assert timed.occurrence == "1764950400"
    assert timed.fold is Fold.NONE


def test_another_field_is_one_notice_of_the_account() -> None:
    status = {"event": "APPROVED", "message_template_id": 900000000000001}
    whole = body(entry({"field": "message_template_status_update", "value": status}, time=1764950400))
    reading = cloudapi.read(whole)
    (event,) = reading.events
    assert reading.instance == ACCOUNT
    assert (event.kind, event.type) == ("account.notice", "message_template_status_update")
    assert event.parts[0] == "message_template_status_update"
    assert event.parts[2] is OCCURRENCE
    assert event.occurrence == "1764950400"
    assert at(whole, event) == status
    rejected = {"field": "message_template_status_update", "value": status | {"event": "REJECTED"}}
    assert identity(event) != identity(fact(rejected, time=1764950400))


def test_what_stands_beside_the_messages_is_kept() -> None:
    whole = body(entry(change(messages=[text()], fresh={"a": 1}, large=list(range(100))), time=5))
    message, notice = cloudapi.read(whole).events
    assert set(message.context) == {
        *("object", "id", "time", "field", "messaging_product", "metadata", "fresh"),
    }
    assert message.context["metadata"] == ("entry", 0, "changes", 0, "value", "metadata")
    assert (notice.kind, notice.type) == ("account.notice", "large")
    assert at(whole, notice) == list(range(100))


def test_context_is_bounded_however_many_share_it() -> None:
    contacts = [{"wa_id": str(n), "profile": {"name": "x" * 10_000}} for n in range(50)]
    events = facts(change(messages=[text()], contacts=contacts, huge="x" * 10_000))
    assert "contact" not in events[0].context
    assert "huge" not in events[0].context


def test_two_numbers_in_one_body_keep_their_own_instance() -> None:
    whole = body(
        entry(change(messages=[text("wamid.A")])), entry(change("other", messages=[text("wamid.A")]))
    )
    reading = cloudapi.read(whole)
    assert reading.instance == PHONE
    assert [event.instance for event in reading.events] == [None, "other"]


def test_nothing_is_counted_and_the_strange_is_stored() -> None:
    for nothing in (change(messages=[]), change(messages=[], statuses=[], contacts=[])):
        reading = cloudapi.read(body(entry(nothing)))
        assert (reading.events, reading.counted) == ((), (("empty", 1),))
    assert cloudapi.read(body()).counted == (("empty", 1),)
    odd_bodies: list[object] = [None, 7, "x", [], {}, {"entry": None}, {"entry": [1]}, body(entry(7))]
    for strange in odd_bodies:
        (only,) = cloudapi.read(strange).events
        assert only.kind == "unknown"
        assert only.path == ()
    for odd in (change(messages=[7]), change(statuses=["x"]), change(messages="x")):
        (event,) = facts(odd)
        assert event.kind == "unknown"
    assert fact({"field": "messages", "value": None}).kind == "account.notice"
    assert fact(change(contacts=[{"wa_id": "1"}])).kind == "account.notice"


def test_a_strange_piece_never_hides_its_neighbours_nor_is_hidden_by_them() -> None:
    whole = body(entry(change(messages=[text()]), 7), "x", {"id": ACCOUNT}, entry())
    reading = cloudapi.read(whole)
    assert [event.kind for event in reading.events] == ["message", "unknown", "unknown", "unknown"]
    assert [at(whole, event) for event in reading.events[1:]] == [7, "x", {"id": ACCOUNT}]


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
VALUE_MEMBERS = st.sampled_from(
    ["messages", "statuses", "errors", "message_echoes", "contacts", "metadata", "messaging_product", "x"]
)
ELEMENT_MEMBERS = st.sampled_from(
    ["id", "from", "to", "type", "text", "reaction", "timestamp", "status", "errors", "recipient_id", "image"]
)
ELEMENTS = JSON | st.dictionaries(ELEMENT_MEMBERS, JSON, max_size=6)
VALUES = JSON | st.dictionaries(VALUE_MEMBERS, JSON | st.lists(ELEMENTS, max_size=3), max_size=5)
CHANGES = JSON | st.fixed_dictionaries({"field": JSON, "value": VALUES})
ENTRIES = JSON | st.fixed_dictionaries({"id": JSON, "time": JSON, "changes": st.lists(CHANGES, max_size=3)})


@given(JSON | st.lists(ENTRIES, max_size=3).map(lambda entries: body(*entries)))
def test_any_json_gives_facts_with_an_identity_and_a_place(value: Any) -> None:
    reading = cloudapi.read(value, path_instance="x")
    assert reading.events or reading.counted
    for event in reading.events:
        assert len(identity(event)) == 36
        at(value, event)
        for place in event.context.values():
            found = value
            for step in place:
                found = found[step]
