"""The story is equal for equal seeds, endless, and loses nothing when it is disturbed."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import islice

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from simulator.shapes import long
from simulator.story import LAG_WEBHOOKS_MAX, Webhook, carried, disturbed, webhooks

START = datetime(2026, 11, 29, 12, tzinfo=UTC)


def story(seed: int, count: int) -> list[Webhook]:
    return list(islice(webhooks(seed, instances=3, start_at=START), count))


def test_equal_seeds_give_equal_bytes_and_other_seeds_others() -> None:
    assert story(7, 300) == story(7, 300)
    assert {hook.body for hook in story(7, 300)}.isdisjoint({hook.body for hook in story(8, 300)[6:]})


def test_every_body_is_an_envelope_of_evolution() -> None:
    for hook in story(1, 500):
        envelope = msgspec.json.decode(hook.body)
        assert list(envelope) == [
            "event", "instance", "data", "destination", "date_time", "sender", "server_url", "apikey",
        ]  # fmt: skip
        assert (envelope["event"], envelope["instance"]) == (hook.event, hook.instance)


def test_the_story_has_all_that_it_promises() -> None:
    hooks = story(3, 1500)
    bodies = [msgspec.json.decode(hook.body) for hook in hooks]
    assert {hook.instance for hook in hooks} == {"loja-1", "loja-2", "loja-3"}
    assert {hook.event for hook in hooks} == {
        "connection.update", "messages.upsert", "contacts.update", "send.message", "messages.update",
        "messages.edited", "messages.delete", "presence.update", "call",
    }  # fmt: skip
    said = [body["data"] for body in bodies if body["event"] == "messages.upsert"]
    assert {data["key"]["remoteJid"].split("@")[1] for data in said} == {"g.us", "s.whatsapp.net"}
    moods = Counter(
        (data["message"]["reactionMessage"]["key"]["id"], data["message"]["reactionMessage"]["text"])
        for data in said
        if data["messageType"] == "reactionMessage"
    )
    assert any(count == 2 and text for (_, text), count in moods.items()), "a reaction is put again"
    assert any(not text for _, text in moods), "a reaction is removed"
    ids = [data["key"]["id"] for data in said]
    assert len(ids) == len(set(ids)), "undisturbed, nobody says the same thing twice"


@given(seed=st.integers(0, 2**32), repeat=st.floats(0, 1), delay=st.floats(0, 1), count=st.integers(0, 60))
def test_disturbing_loses_nothing_and_delays_a_little(
    seed: int, repeat: float, delay: float, count: int
) -> None:
    hooks = [Webhook(instance="i", event="e", body=str(number).encode()) for number in range(count)]
    sent = list(disturbed(hooks, seed, repeat_share=repeat, delay_share=delay))
    assert set(sent) == set(hooks)
    assert max(Counter(sent).values(), default=0) <= 2
    first = {hook: position for position, hook in reversed(list(enumerate(sent)))}
    for number, hook in enumerate(hooks):
        assert first[hook] <= number * 2 + LAG_WEBHOOKS_MAX * 2


def test_disturbing_repeats_and_reorders() -> None:
    hooks = story(5, 200)
    sent = list(disturbed(hooks, 5, repeat_share=0.2, delay_share=0.2))
    assert len(sent) > len(hooks)
    assert list(dict.fromkeys(sent)) != hooks


@given(st.integers(0, 2**62))
def test_long_halves_make_the_whole_again(value: int) -> None:
    halves = long(value)
    low, high = halves["low"], halves["high"]
    assert isinstance(low, int)
    assert isinstance(high, int)
    assert -(1 << 31) <= low < 1 << 31
    assert (high << 32) + (low & 0xFFFFFFFF) == value


@given(st.integers(), st.floats(0, 1))
def test_every_event_comes_by_one_of_both_channels(seed: int, drop_share: float) -> None:
    told = story(5, 200)
    by_webhook = list(carried(told, "webhook", seed=seed, drop_share=drop_share))
    by_broker = list(carried(told, "rabbitmq", seed=seed, drop_share=drop_share))
    assert {hook.body for hook in by_webhook} | {hook.body for hook in by_broker} == {h.body for h in told}
    if drop_share == 0:
        assert by_webhook == by_broker == told


def test_the_share_is_kept_and_both_channels_lose() -> None:
    told = story(5, 2000)
    left = [len(list(carried(told, channel, seed=1, drop_share=0.5))) for channel in ("webhook", "rabbitmq")]
    assert all(1400 < count < 1600 for count in left)
