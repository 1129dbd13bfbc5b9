"""The pure rules beside the doors: capture policy, scopes, counts, storms, paths, encodings."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asgi.body import BodyTooLarge
from asgi.inflate import UnknownEncoding, inflated
from collector.storm import Advice, StormGuard
from collector.tally import Tally, hour_of
from contracts.configured import CaptureFilter, CapturePolicy
from contracts.events import Event
from contracts.policy import refusal
from contracts.route import EVOLUTION_EVENTS, place_in, segments
from contracts.scopes import ScopeTable, as_rows, from_rows

GROUP = "120363000000000010@g.us"
DIRECT = "5511900000001@s.whatsapp.net"


def event(kind: str = "message", chat: str | None = DIRECT) -> Event:
    return Event(kind=kind, type="t", chat_jid=chat, parts=("x",))


@pytest.mark.parametrize(
    ("policy", "fact", "refused"),
    [
        (CapturePolicy(), event(), None),
        (CapturePolicy(), event("presence"), "signal"),
        (CapturePolicy(presence=True), event("presence"), None),
        (CapturePolicy(allow=CaptureFilter(kinds=frozenset({"call"}))), event(), "denied"),
        (CapturePolicy(allow=CaptureFilter(kinds=frozenset({"message"}))), event(), None),
        (CapturePolicy(deny=CaptureFilter(kinds=frozenset({"message"}))), event(), "denied"),
        (CapturePolicy(allow=CaptureFilter(chat_classes=frozenset({"group"}))), event(), "denied"),
        (CapturePolicy(allow=CaptureFilter(chat_classes=frozenset({"group"}))), event(chat=GROUP), None),
        (CapturePolicy(allow=CaptureFilter(chat_classes=frozenset({"group"}))), event(chat=None), None),
        (CapturePolicy(deny=CaptureFilter(chat_classes=frozenset({"group"}))), event(chat=GROUP), "denied"),
        (CapturePolicy(deny=CaptureFilter(chat_classes=frozenset({"direct"}))), event(chat=None), None),
        (CapturePolicy(deny=CaptureFilter(instances=frozenset({"evo/loja"}))), event(), "denied"),
        (CapturePolicy(deny=CaptureFilter(instances=frozenset({"loja"}))), event(), None),
        (
            CapturePolicy(
                allow=CaptureFilter(kinds=frozenset({"message"})),
                deny=CaptureFilter(instances=frozenset({"evo/loja"})),
            ),
            event(),
            "denied",
        ),
    ],
)
def test_capture_policy(policy: CapturePolicy, fact: Event, refused: str | None) -> None:
    assert refusal(policy, fact, "evo/loja") == refused


def test_an_instance_keeps_the_scope_of_its_first_event() -> None:
    table = ScopeTable(mapped={("evo", "a"): "loja"})
    assert table.scope_of(("evo", "a")) == "loja"
    assert table.scope_of(("evo", "b")) == "evo/b"
    table.kept[("evo", "b")] = "evo/b"
    table.mapped[("evo", "b")] = "loja"
    assert table.scope_of(("evo", "b")) == "evo/b"
    assert table.moved() == {("evo", "b"): ("evo/b", "loja")}
    assert from_rows(as_rows(table.kept)) == table.kept


def test_the_tally_is_bounded_and_its_totals_forget_nothing() -> None:
    tally = Tally(rows_max=3)
    for instance in "abcde":
        tally.add(
            hour="2026-01-01T00:00:00Z", gateway="g", instance=instance, channel="w", counts={"stored": 2}
        )
    assert [key[2] for key in tally.rows] == ["c", "d", "e"]
    assert tally.totals["stored"] == 10
    tally.add(hour="2026-01-01T01:00:00Z", gateway="g", instance="e", channel="w", counts={"stored": 1})
    tally.prune("2026-01-01T01:00:00Z")
    assert [key[0] for key in tally.rows] == ["2026-01-01T01:00:00Z"]


def test_hours_are_told_in_rfc_3339() -> None:
    at = datetime(2026, 1, 31, 13, 59, 59, tzinfo=UTC)
    assert datetime.fromisoformat(hour_of(at)) == at.replace(minute=0, second=0)
    assert hour_of(at) < hour_of(at + timedelta(seconds=1))


SOURCE = ("evo", "loja")


def storm() -> StormGuard:
    return StormGuard(events_max=10, window_s=10.0, instances_max=2)


def advices(guard: StormGuard, times: list[float], sameness: str = "connecting") -> list[Advice]:
    return [guard.advise(SOURCE, sameness, f"{sameness} at {at}", at) for at in times]


PASS, HOLD = Advice(), Advice(hold=True)


def test_the_eleventh_equal_event_within_ten_seconds_is_held_and_news_release_it() -> None:
    guard = storm()
    assert advices(guard, [n * 0.1 for n in range(12)]) == [PASS] * 10 + [HOLD] * 2
    assert guard.advise(SOURCE, "open", "an open", 1.3) == Advice(release=True)
    assert guard.advise(SOURCE, "close", "a close", 1.4) == PASS


def test_a_storm_that_thins_out_releases_before_the_next_one_passes() -> None:
    guard = storm()
    advices(guard, [n * 0.1 for n in range(12)])
    assert guard.advise(SOURCE, "connecting", "late", 19.0) == Advice(release=True)
    assert guard.over(100.0) == []


def test_a_slow_beat_of_equal_events_is_no_storm() -> None:
    assert set(advices(storm(), [n * 1.2 for n in range(50)])) == {PASS}


def test_copies_of_one_event_are_no_storm() -> None:
    guard = storm()
    assert {guard.advise(SOURCE, "connecting", "one-id", n * 0.01) for n in range(50)} == {PASS}


def test_a_storm_is_over_after_a_quiet_window_and_said_once() -> None:
    guard = storm()
    advices(guard, [n * 0.1 for n in range(15)])
    assert guard.over(5.0) == []
    assert guard.over(12.0) == [SOURCE]
    assert guard.over(13.0) == []


def test_the_storm_guard_remembers_a_bounded_number_of_instances() -> None:
    guard = storm()
    for n in range(50):
        guard.advise(("evo", f"i{n}"), "connecting", "id", 0.0)
    assert len(guard.runs) == 2


moments = st.lists(st.tuples(st.floats(0, 3), st.sampled_from("ab")), max_size=80)


@given(moments)
def test_at_most_one_event_is_held_and_what_is_held_always_comes_out(steps: list[tuple[float, str]]) -> None:
    guard, now_s, held = storm(), 0.0, None
    put: list[str] = []
    for number, (pause_s, sameness) in enumerate(steps):
        now_s += pause_s
        identity = f"{sameness}{number}"
        advice = guard.advise(SOURCE, sameness, identity, now_s)
        if advice.release:
            assert held is not None
            put.append(held)
            held = None
        if advice.hold:
            held = identity
        else:
            assert held is None, "an older event would come out after this one"
            put.append(identity)
    if guard.over(now_s + 11):
        assert held is not None
        put.append(held)
        held = None
    assert held is None
    assert put == sorted(put, key=lambda identity: int(identity[1:])), "in the order they came"
    assert not steps or put[-1] == f"{steps[-1][1]}{len(steps) - 1}", "the last one is a row"


def is_token(value: bytes) -> bool:
    return value == b"s3cret-token"


@pytest.mark.parametrize(
    ("path", "instance", "token_ok", "understood"),
    [
        (b"", None, False, True),
        (b"/loja", "loja", False, True),
        (b"/loja/", "loja", False, True),
        (b"/loja/messages-upsert", "loja", False, True),
        (b"/messages-upsert", None, False, True),
        (b"/call/call", "call", False, True),
        (b"/s3cret-token", None, True, True),
        (b"/s3cret-token/loja", "loja", True, True),
        (b"/s3cret-token/loja/send-message", "loja", True, True),
        (b"/s3cret-token/send-message", None, True, True),
        (b"/s3cret%2Dtoken/loja%20sp", "loja sp", True, True),
        (b"/a%2Fb", "a/b", False, True),
        (b"/wrong-token/loja", "wrong-token", False, False),
        (b"/s3cret-token/loja/what/else", "loja", True, False),
    ],
)
def test_paths(path: bytes, instance: str | None, token_ok: bool, understood: bool) -> None:
    place = place_in(segments(path), is_token=is_token, by_events=True)
    assert (place.instance, place.token_ok, place.understood) == (instance, token_ok, understood)


def test_only_evolution_puts_event_names_behind_the_url() -> None:
    assert place_in([b"call"], is_token=is_token, by_events=False).instance == "call"
    assert all(name == name.lower() and "." not in name for name in EVOLUTION_EVENTS)


@given(st.binary(max_size=200))
def test_no_path_breaks_the_door(path: bytes) -> None:
    place_in(segments(path), is_token=is_token, by_events=True)


def test_gzip_is_undone_with_all_its_members_and_a_bound() -> None:
    packed = gzip.compress(b'{"a":') + gzip.compress(b"1}")
    assert inflated(b"GZIP ", packed, 100) == b'{"a":1}'
    assert inflated(b"identity", b"{}", 100) == b"{}"
    assert inflated(b"gzip", gzip.compress(b"x" * 100), 100) == b"x" * 100
    with pytest.raises(BodyTooLarge):
        inflated(b"gzip", gzip.compress(b"x" * 101), 100)
    with pytest.raises(BodyTooLarge):
        inflated(b"gzip", gzip.compress(b"x" * 60) * 2, 100)
    with pytest.raises(UnknownEncoding):
        inflated(b"br", b"{}", 100)


def test_a_damaged_stream_is_kept_as_it_came() -> None:
    packed = gzip.compress(b'{"a":1}')
    assert inflated(b"gzip", packed[:-3], 100) == packed[:-3]
    assert inflated(b"gzip", b"not gzip", 100) == b"not gzip"
    many = gzip.compress(b"") * 65
    assert inflated(b"gzip", many[: len(many) // 65 * 64], 100) == b""
    assert inflated(b"gzip", many, 100) == many


@given(st.binary(max_size=300), st.integers(1, 400))
def test_what_is_inflated_never_passes_the_bound(data: bytes, bound: int) -> None:
    try:
        assert inflated(b"gzip", gzip.compress(data), bound) == data
    except BodyTooLarge:
        assert len(data) > bound
