"""Suppression as laws over any members."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outbox.guarding import rule
from outbox.record import Guard, GuardMode
from outbox.store import MEMBERS_MAX

MEMBERS = st.dictionaries(st.text(max_size=3), st.binary(min_size=1, max_size=2), max_size=4)


def guard(mode: GuardMode, members: dict[str, bytes]) -> Guard:
    return Guard(key="k", mode=mode, members=members)


@given(members=MEMBERS)
def test_the_first_of_a_subject_is_never_suppressed(members: dict[str, bytes]) -> None:
    for mode in GuardMode:
        assert not rule(guard(mode, members), None).suppressed


@given(kept=st.none() | MEMBERS, members=MEMBERS)
def test_what_was_just_kept_tells_nothing_again(
    kept: dict[str, bytes] | None, members: dict[str, bytes]
) -> None:
    for mode in (GuardMode.SNAPSHOT, GuardMode.TRANSITION):
        first = rule(guard(mode, members), kept)
        assert rule(guard(mode, members), first.keep).suppressed


@given(kept=MEMBERS, members=MEMBERS)
def test_a_snapshot_is_suppressed_only_when_it_changes_nothing(
    kept: dict[str, bytes], members: dict[str, bytes]
) -> None:
    ruling = rule(guard(GuardMode.SNAPSHOT, members), kept)
    assert ruling.keep == {**kept, **members}
    assert ruling.suppressed == ({**kept, **members} == kept)


@given(kept=MEMBERS, members=MEMBERS)
def test_a_transition_is_old_only_when_equal(kept: dict[str, bytes], members: dict[str, bytes]) -> None:
    ruling = rule(guard(GuardMode.TRANSITION, members), kept)
    assert ruling.suppressed == (kept == members)
    assert ruling.keep == members


@given(kept=st.none() | MEMBERS, members=MEMBERS)
def test_a_clear_passes_once_and_forgets(kept: dict[str, bytes] | None, members: dict[str, bytes]) -> None:
    ruling = rule(guard(GuardMode.CLEAR, members), kept)
    assert (ruling.suppressed, ruling.keep) == (kept == {}, kept if kept == {} else {})


def test_a_subject_with_too_many_members_is_forgotten_rather_than_cut() -> None:
    full = {f"{n}": b"v" for n in range(MEMBERS_MAX)}
    assert rule(guard(GuardMode.SNAPSHOT, full), None).keep == full
    ruling = rule(guard(GuardMode.SNAPSHOT, {"one more": b"v"}), full)
    assert (ruling.suppressed, ruling.keep) == (False, None)
