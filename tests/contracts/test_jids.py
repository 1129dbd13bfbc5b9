"""Addresses: one bare form, kinds by suffix, and a person's LID before their phone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.jids import bare_jid, chat_class, jid_kind, person, phone_of


@pytest.mark.parametrize(
    ("sent", "bare"),
    [
        ("5511900000001:0@s.whatsapp.net", "5511900000001@s.whatsapp.net"),
        ("5511900000001:23@s.whatsapp.net", "5511900000001@s.whatsapp.net"),
        ("5511900000001.0:1@s.whatsapp.net", "5511900000001@s.whatsapp.net"),
        ("5511900000001_1:2@s.whatsapp.net", "5511900000001@s.whatsapp.net"),
        ("5511900000001@c.us", "5511900000001@s.whatsapp.net"),
        ("5511900000001:99@hosted", "5511900000001@s.whatsapp.net"),
        ("123:38@lid", "123@lid"),
        ("123:99@hosted.lid", "123@lid"),
        ("120363000000000001@g.us", "120363000000000001@g.us"),
        ("5511900000001-1400000000@g.us", "5511900000001-1400000000@g.us"),
        ("status@broadcast", "status@broadcast"),
        ("123@newsletter", "123@newsletter"),
        ("867051314767696@bot", "867051314767696@bot"),
        ("5511900000001", "5511900000001"),
        (":1@s.whatsapp.net", ":1@s.whatsapp.net"),
        ("@s.whatsapp.net", "@s.whatsapp.net"),
        ("", ""),
    ],
)
def test_device_and_agent_are_cut_from_people_only(sent: str, bare: str) -> None:
    assert bare_jid(sent) == bare
    assert bare_jid(bare) == bare


@pytest.mark.parametrize(
    ("jid", "kind"),
    [
        ("5511900000001@s.whatsapp.net", "user"),
        ("5511900000001:3@c.us", "user"),
        ("5511900000001:99@hosted", "user"),
        ("123456789012345@lid", "lid"),
        ("123@hosted.lid", "lid"),
        ("120363000000000001@g.us", "group"),
        ("5511900000001-1400000000@g.us", "group"),
        ("status@broadcast", "broadcast"),
        ("123@broadcast", "broadcast"),
        ("123@newsletter", "newsletter"),
        ("0@s.whatsapp.net", "other"),
        ("server@c.us", "other"),
        ("١٢٣@s.whatsapp.net", "other"),
        ("867051314767696@bot", "other"),
        ("@g.us", "other"),
        ("5511900000001", "other"),
        ("x@unheard.of", "other"),
        ("", "other"),
    ],
)
def test_kinds_go_by_suffix(jid: str, kind: str) -> None:
    assert jid_kind(jid) == kind


@pytest.mark.parametrize(
    "jid", ["5511900000001@s.whatsapp.net", "123@lid", "5511900000001@c.us", "", None, "x@bot"]
)
def test_direct_chats_share_one_class_whatever_their_spelling(jid: str | None) -> None:
    assert chat_class(jid) == "direct"


@pytest.mark.parametrize("jid", ["1203@g.us", "status@broadcast", "123@newsletter"])
def test_shared_chats_are_their_own_class(jid: str) -> None:
    assert chat_class(jid) == jid


@given(st.permutations(["5511900000001:4@s.whatsapp.net", "77:4@lid", None, "", 5, {}]))
def test_a_person_is_the_lid_wherever_it_stands(candidates: list[object]) -> None:
    assert person(*candidates) == "77@lid"


def test_a_person_without_a_lid_is_the_phone() -> None:
    assert person(None, "BR.15abc", "5511900000001@c.us") == "5511900000001@s.whatsapp.net"
    assert person("5511900000001") == person("5511900000001@s.whatsapp.net")
    assert person("BR.15abc") == "BR.15abc"
    assert person() is None
    assert person("", None) is None


@pytest.mark.parametrize(
    ("value", "phone"),
    [
        ("5511900000001:2@s.whatsapp.net", "5511900000001"),
        ("77@lid", None),
        ("5511900000001@lid", None),
        ("0@s.whatsapp.net", None),
        ("5511900000001-1400000000@g.us", None),
        ("[object Object]", None),
        ({"jid": "x"}, None),
        (None, None),
    ],
)
def test_a_value_is_a_phone_only_if_its_suffix_says_so(value: object, phone: str | None) -> None:
    assert phone_of(value) == phone


@given(st.text(max_size=30))
def test_no_text_breaks_an_address_function(text: str) -> None:
    assert bare_jid(bare_jid(text)) == bare_jid(text)
    jid_kind(text)
    person(text)
    phone_of(text)
