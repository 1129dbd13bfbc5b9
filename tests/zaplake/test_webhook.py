"""What a webhook should be, what it is, and how the difference is told: without a secret."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.route import place_in, segments
from simulator.api import EVENTS_V1, EVENTS_V2
from zaplake.webhook import (
    NEEDED_V1,
    NEEDED_V2,
    Credential,
    Webhook,
    body_for,
    differences,
    door_path,
    headers_for,
    read,
    shown,
)

TOKEN = "a-token-of-this-test"
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)
WANTED = Webhook(url="http://c:8080/gateways/evolution/loja", headers={"X-Collector-Token": TOKEN})
AS_FOUND = replace(WANTED, events=EVENTS_V2)


def test_what_is_needed_can_be_subscribed() -> None:
    assert set(NEEDED_V1) <= set(EVENTS_V1)
    assert set(NEEDED_V2) <= set(EVENTS_V2)


@given(gateway=NAMES, instance=NAMES, token=NAMES)
def test_our_own_door_understands_the_path(gateway: str, instance: str, token: str) -> None:
    path = door_path(1, gateway, instance, Credential(token=token))
    prefix, name, *rest = segments(path.encode())
    place = place_in(rest, is_token=lambda segment: segment == token.encode(), by_events=False)
    assert (prefix, name.decode()) == (b"gateways", gateway)
    assert (place.instance, place.token_ok, place.understood) == (instance, True, True)


def test_2_sends_headers_and_1_8_a_path() -> None:
    both = Credential(token=TOKEN, jwt_key="a-jwt-key")
    assert headers_for(2, both) == {"X-Collector-Token": TOKEN}
    assert headers_for(2, Credential(jwt_key="a-jwt-key")) == {"jwt_key": "a-jwt-key"}
    assert headers_for(1, both) == {}
    assert TOKEN not in door_path(2, "evolution", "loja", both)
    assert TOKEN in door_path(1, "evolution", "loja", both)


@pytest.mark.parametrize("api", [1, 2])
def test_the_body_always_names_the_events(api: int) -> None:
    body = body_for(1 if api == 1 else 2, WANTED)
    inner = body if api == 1 else body["webhook"]
    assert isinstance(inner, dict)
    assert inner["events"] == []
    assert ("headers" in inner) == (api == 2)


@pytest.mark.parametrize(
    "document",
    [
        {"url": "http://x", "enabled": True, "events": ["CALL"], "headers": {}, "webhookBase64": True},
        {"url": "http://x", "enabled": True, "events": ["CALL"], "headers": None, "webhook_base64": True},
        {"webhook": {"url": "http://x", "enabled": True, "events": ["CALL"], "webhookBase64": True}},
        {"webhook": {"instanceName": "a", "webhook": {
            "url": "http://x", "enabled": True, "events": ["CALL"], "webhook_base64": True}}},
    ],
)  # fmt: skip
def test_a_webhook_is_read_in_every_shape(document: object) -> None:
    assert read(document) == Webhook(url="http://x", events=("CALL",), base64=True)


@given(st.recursive(
    st.none() | st.integers() | st.text() | st.booleans(),
    lambda inner: st.lists(inner)
    | st.dictionaries(st.sampled_from(["webhook", "url", "events", "headers"]), inner),
    max_leaves=8,
))  # fmt: skip
def test_any_answer_is_a_webhook_or_none(document: object) -> None:
    found = read(document)
    assert found is None or isinstance(found.url, str)
    differences(2, WANTED, found, [TOKEN])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "webhook: none instead of http://c:8080/gateways/evolution/loja"),
        (replace(AS_FOUND, url="http://u:p@old/x?key=s"), "url: http://old/***?*** instead of"),
        (replace(AS_FOUND, enabled=False), "enabled: no instead of yes"),
        (replace(AS_FOUND, headers={}), "header X-Collector-Token: none instead of ***"),
        (replace(AS_FOUND, headers={"x-collector-token": "old"}), "another secret instead of ***"),
        (replace(AS_FOUND, events=EVENTS_V1), "events: without MESSAGES_EDITED instead of with them"),
    ],
)
def test_each_difference_is_told_without_a_secret(found: Webhook | None, said: str) -> None:
    (difference,) = differences(2, WANTED, found, [TOKEN])
    assert said in str(difference)
    assert TOKEN not in str(difference)


def test_what_is_as_wanted_has_no_difference() -> None:
    assert differences(2, WANTED, AS_FOUND, []) == []
    assert differences(2, WANTED, replace(AS_FOUND, headers={"x-collector-TOKEN": TOKEN}), []) == []
    assert differences(1, Webhook(url="http://c/a"), Webhook(url="http://c/a/", events=EVENTS_V1), []) == []
    some = replace(WANTED, events=("CALL",))
    assert differences(2, some, replace(AS_FOUND, events=("CALL",)), []) == []
    assert "also" in str(differences(2, some, replace(AS_FOUND, events=("CALL", "CHATS_SET")), [])[0])
    path_alone = replace(WANTED, url="/gateways/evolution/loja")
    assert differences(2, path_alone, AS_FOUND, []) == []
    assert differences(2, path_alone, replace(AS_FOUND, url="http://c/other"), []) != []


@given(secret=st.text(st.characters(codec="ascii"), min_size=8, max_size=20))
def test_a_shown_url_has_no_secret(secret: str) -> None:
    path = door_path(1, "evolution", "loja", Credential(token=secret))
    assert shown(f"http://c{path}", [secret]) == "http://c/gateways/evolution/***/loja"
    assert shown(f"http://c{path}", []) == "http://c/gateways/evolution/***/loja", "also one of before"
    assert secret not in shown(f"http://n8n.test/webhook/{quote(secret, safe='')}", [])


def test_a_shown_url_still_says_where_it_leads() -> None:
    assert shown("http://[", []) == "no URL"
    assert shown("http://c:8080/x/gateways/evo/loja", []) == "http://c:8080/x/gateways/evo/loja"
    assert shown("http://n8n.test/webhook/7f1c", []) == "http://n8n.test/***"
    assert shown("http://n8n.test/", []) == "http://n8n.test/"
