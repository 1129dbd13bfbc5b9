"""One fact has one canonical form, whatever gateway, version or clone wrote it; another fact another."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.canonical import canonical, canonical_json, content_hash, member_hashes
from contracts.canonical_data import rules
from contracts.digest import content_digest
from contracts.jsontext import decode

FIXTURES = Path(__file__).with_name("fixtures")
Json = dict[str, Any]


def _bodies(case: str) -> dict[str, Any]:
    return {path.stem: decode(path.read_bytes()) for path in sorted((FIXTURES / case).glob("*.json"))}


@pytest.mark.parametrize(
    "case",
    [
        "image",
        "audio-ptt-waveform",
        "document-with-caption",
        "text-unicode-nul",
        "group-ephemeral-redelivered",
    ],
)
def test_every_way_a_bot_serialises_one_message_is_one_form(case: str) -> None:
    messages = {name: body["data"]["messages"][0] for name, body in _bodies(case).items()}
    assert len(messages) >= 3
    assert len({content_hash("message", message) for message in messages.values()}) == 1
    assert len({content_digest(message["message"]) for message in messages.values()}) == 1
    assert len({json.dumps(message["message"]) for message in messages.values()}) > 1


def test_a_stub_is_one_form_by_name_and_by_number() -> None:
    messages = [body["data"]["messages"][0] for body in _bodies("stub-participant-add").values()]
    assert len({content_hash("message", message) for message in messages}) == 1
    assert len({str(message["messageStubType"]) for message in messages}) == 2


def test_a_group_is_one_form_in_any_order_size_and_without_a_phone() -> None:
    groups = [body["data"][0] for body in _bodies("group-full-resync").values()]
    assert len(groups) == 5
    assert len({content_hash("group.metadata", group) for group in groups}) == 1
    assert len({group["size"] for group in groups}) > 1
    hashes = [member_hashes("group.metadata", group) for group in groups]
    assert all(members == hashes[0] for members in hashes)
    assert {"id", "subject", "participants"} <= hashes[0].keys()
    assert not {"size", "subjectTime", "author"} & hashes[0].keys()
    changed = {
        **groups[0],
        "participants": [{**person, "admin": "admin"} for person in groups[0]["participants"]],
    }
    differing = {
        name for name, value in member_hashes("group.metadata", changed).items() if value != hashes[0][name]
    }
    assert differing == {"participants"}


def test_a_call_offer_is_one_form_whenever_it_comes() -> None:
    assert len({content_hash("call", body["data"][0]) for body in _bodies("call-offer").values()}) == 1


def test_a_picture_and_a_name_do_not_rearm_each_other() -> None:
    contact = {"id": "1@lid", "notify": "Ana", "imgUrl": "changed"}
    whole, name, picture = (
        member_hashes("contact", {key: contact[key] for key in keys})
        for keys in (("id", "notify", "imgUrl"), ("id", "notify"), ("id", "imgUrl"))
    )
    assert name.items() <= whole.items()
    assert picture.items() <= whole.items()
    assert member_hashes("contact", {**contact, "notify": "Bia"})["notify"] != whole["notify"]


def test_a_member_that_was_taken_away_is_a_member() -> None:
    muted, unmuted = ({"id": "1@lid", "muteEndTime": end} for end in (1764950400000, None))
    kept, now = member_hashes("chat", muted), member_hashes("chat", unmuted)
    assert kept.keys() == now.keys() == {"id", "muteEndTime"}
    assert kept["muteEndTime"] != now["muteEndTime"]
    empty: tuple[object, ...] = ("", [], {})
    assert all(member_hashes("chat", {"id": "1@lid", "muteEndTime": end}) == now for end in empty)
    assert member_hashes("chat", {"id": "1@lid", "unreadCount": None}).keys() == {"id"}
    assert content_hash("chat", unmuted) == content_hash("chat", {"id": "1@lid"})


@pytest.mark.parametrize(
    ("kind", "noise"),
    [
        (
            "chat",
            {"unreadCount": 5, "conversationTimestamp": 1, "messages": [{"message": {}}], "instanceId": "x"},
        ),
        ("contact", {"instanceId": "x"}),
        (
            "connection",
            {"profileName": "x", "profilePictureUrl": "x", "lastDisconnect": {"error": 1}, "qr": "2@"},
        ),
        ("call", {"date": "x", "latencyMs": 5, "offline": True}),
        (
            "group.metadata",
            {"size": 1, "subjectTime": 1, "notify": "x", "inviteCode": "x", "pictureUrl": "x"},
        ),
        ("group.participants", {"participantsData": [{"jid": {}}], "authorPn": "x"}),
        (
            "message",
            {"pushName": "x", "status": 4, "messageTimestamp": 1, "starred": True, "pollUpdates": [1]},
        ),
        ("message", {"message": {"messageContextInfo": {"messageSecret": "AA=="}}, "key": {"id": "x"}}),
        ("unknown", {"apikey": "x", "server_url": "x", "destination": "x", "sender": "x"}),
    ],
)
def test_what_is_volatile_in_its_kind_is_in_no_hash(kind: str, noise: Json) -> None:
    element = {"id": "1@lid", "state": "open"} if kind != "message" else {}
    assert content_hash(kind, {**element, **noise}) == content_hash(kind, element)
    assert content_hash("typebot", {**element, **noise}) != content_hash("typebot", element)


def test_a_member_of_that_name_elsewhere_stays() -> None:
    one, other = ({"message": {"conversation": "x", "status": "a", "size": size}} for size in (1, 2))
    assert content_hash("message", one) != content_hash("message", other)


SAMPLES = st.recursive(
    st.one_of(st.text(max_size=8), st.integers(), st.floats(), st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["participants", "id", "fileSha256", "status", "0", "1", "low"]), inner
        ),
    ),
    max_leaves=20,
)


@given(SAMPLES, st.sampled_from(["message", "group.metadata", "contact", "unknown", "never heard of"]))
def test_any_element_of_any_kind_has_a_form_that_json_writes(element: object, kind: str) -> None:
    form = canonical(kind, element)
    assert canonical_json(json.loads(canonical_json(form))) == canonical_json(form)
    assert len(content_hash(kind, element)) == 64
    assert all(len(value) == 16 for value in member_hashes(kind, element).values())


@given(st.dictionaries(st.text(max_size=4), st.integers(), max_size=6), st.randoms())
def test_the_order_of_members_does_not_matter(element: dict[str, int], random: Any) -> None:
    names = list(element)
    random.shuffle(names)
    assert content_hash("unknown", {name: element[name] for name in names}) == content_hash(
        "unknown", element
    )


@given(st.lists(st.integers(0, 30), unique=True, min_size=1), st.randoms())
def test_the_order_of_people_does_not_matter_and_that_of_others_does(numbers: list[int], random: Any) -> None:
    people = [{"id": f"{number}@lid", "admin": "admin" if number % 2 else None} for number in numbers]
    shuffled = random.sample(people, len(people))
    same = content_hash("group.metadata", {"participants": shuffled})
    assert same == content_hash("group.metadata", {"participants": people})
    if shuffled != people:
        assert content_hash("unknown", {"rows": shuffled}) != content_hash("unknown", {"rows": people})


def test_depth_is_bounded_and_what_is_below_still_counts() -> None:
    shallow, deep, other = (
        decode(b'{"a":' * levels + leaf + b"}" * levels)
        for levels, leaf in ((50_000, b"1"), (50_001, b"1"), (50_000, b"2"))
    )
    assert len({content_hash("unknown", value) for value in (shallow, deep, other)}) == 3


def test_what_is_below_the_limit_is_hashed_as_its_sorted_json() -> None:
    below: Json = {"b": [1, {"z": None, "a": "é"}, [], {}], "a": 1.0, "c": True}
    value: object = below
    for _ in range(rules("unknown").depth_max):
        value = [value]
    text = '{"a":1,"b":[1,{"a":"é","z":null},[],{}],"c":true}'
    form = canonical_json(canonical("unknown", value)).decode()
    assert hashlib.sha256(text.encode()).hexdigest() in form


def test_the_digest_is_text_and_file_however_they_are_wrapped() -> None:
    text = content_digest({"conversation": "Cafe\u0301"})
    assert len(text) == 16
    assert text == content_digest({"extendedTextMessage": {"text": "Café", "previewType": 0}})
    assert text == content_digest({"conversation": "Café", "messageContextInfo": {"messageSecret": "AA=="}})
    wrapped: Json = {"conversation": "Café"}
    for wrapper in ("ephemeralMessage", "viewOnceMessageV2", "deviceSentMessage", "editedMessage"):
        wrapped = {wrapper: {"message": wrapped}}
    assert content_digest(wrapped) == text
    assert (
        text
        == hashlib.sha256(
            json.dumps(["Café", None], ensure_ascii=False, separators=(",", ":")).encode()
        ).digest()[:16]
    )
    assert unicodedata.is_normalized("NFC", "Café")


@pytest.mark.parametrize(
    "sha256",
    ["AQL/", "AQL_", {"type": "Buffer", "data": [1, 2, 255]}, {"0": 1, "1": 2, "2": 255}, [1, 2, 255]],
)
def test_the_digest_of_a_file_is_the_same_in_every_form_of_its_hash(sha256: object) -> None:
    message = {
        "documentWithCaptionMessage": {"message": {"documentMessage": {"fileSha256": sha256, "caption": "x"}}}
    }
    assert content_digest(message) == content_digest(
        {"imageMessage": {"fileSha256": "AQL/", "caption": "x", "url": "y"}}
    )


def test_digests_differ_when_the_content_does() -> None:
    messages: list[object] = [
        None,
        "text",
        {"conversation": "a"},
        {"conversation": "b"},
        {"imageMessage": {"fileSha256": "AQL/"}},
        {"imageMessage": {"fileSha256": "AQL/", "caption": "a"}},
        {"imageMessage": {"fileSha256": "AQI="}},
        {"locationMessage": {"degreesLatitude": 1.5}},
        {"locationMessage": {"degreesLatitude": 1.25}},
        {"protocolMessage": {"type": 0, "key": {"id": "A"}}},
        {"protocolMessage": {"type": 0, "key": {"id": "B"}}},
    ]
    assert len({content_digest(message) for message in messages}) == len(messages)


def test_wrappers_are_opened_to_a_bound() -> None:
    message: Json = {"conversation": "a"}
    for _ in range(8):
        message = {"ephemeralMessage": {"message": message}}
    assert content_digest(message) == content_digest({"conversation": "a"})
    assert content_digest({"ephemeralMessage": {"message": message}}) != content_digest({"conversation": "a"})
    deep: Json = {}
    for _ in range(50_000):
        deep = {"ephemeralMessage": {"message": deep}}
    assert len(content_digest(deep)) == 16


def test_the_lists_are_those_of_version_1() -> None:
    """A change of the data changes hashes: it needs a version of its own, and this line."""
    data = (Path(__file__).parents[2] / "contracts" / "canonical_v1.toml").read_text()
    lines = "\n".join(line for line in data.splitlines() if line and not line.startswith("#"))
    assert hashlib.sha256(lines.encode()).hexdigest()[:16] == "52acd6461e1dfb40"
