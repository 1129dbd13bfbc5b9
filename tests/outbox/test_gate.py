"""The gate, the storm guard and the suspects as pure rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from outbox.gate import NEAR_S, STORM_DEAD_MAX, STORM_WINDOW, Gate, StormGuard
from outbox.record import Record
from outbox.shipper_events import ShipperEvent, ShipperHalted, ShipperPaused, ShipperResumed
from outbox.suspects import SUSPECTS_MAX, Suspects, distinct

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def fail(
    gate: Gate,
    now: datetime,
    *,
    after_s: float | None = None,
    reason: str = "r",
    is_halt: bool = False,
    is_probe: bool = False,
) -> list[ShipperEvent]:
    return gate.failed(
        now=now, jitter=0.5, reason=reason, is_halt=is_halt, is_probe=is_probe, retry_after_s=after_s
    )


def record(rowid: int, *, id_: str = "", attempts: int = 0) -> Record:
    return Record(
        rowid=rowid,
        id=id_ or f"{rowid}",
        digest=b"",
        body=b"",
        label="",
        attempts=attempts,
        created_at=NOW,
        lease=1,
    )


def test_the_first_failure_shuts_and_stragglers_change_nothing() -> None:
    gate = Gate()
    assert gate.is_open
    assert fail(gate, NOW) == [ShipperPaused(reason="r", next_probe_at=NOW + timedelta(seconds=1))]
    assert fail(gate, NOW) == []
    assert gate.next_probe_at == NOW + timedelta(seconds=1)
    assert not gate.may_probe(NOW)
    assert gate.may_probe(NOW + timedelta(seconds=1))
    gate.probing = True
    assert not gate.may_probe(NOW + timedelta(seconds=9))


def test_failing_probes_come_ever_later_up_to_the_cap() -> None:
    gate = Gate()
    fail(gate, NOW)
    now, delays = NOW, []
    for _ in range(12):
        assert gate.next_probe_at is not None
        delays.append((gate.next_probe_at - now).total_seconds())
        now = gate.next_probe_at
        fail(gate, now, is_probe=True)
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 250, 250, 250, 250]


def test_a_straggler_with_retry_after_moves_the_probe_but_never_nearer() -> None:
    gate = Gate()
    fail(gate, NOW)
    fail(gate, NOW, after_s=100)
    assert gate.next_probe_at == NOW + timedelta(seconds=110)
    fail(gate, NOW, after_s=2)
    assert gate.next_probe_at == NOW + timedelta(seconds=110)


def test_only_a_probe_opens() -> None:
    gate = Gate()
    fail(gate, NOW)
    assert gate.answered(now=NOW, is_probe=False, delivered=True) == []
    assert not gate.is_open
    later = NOW + timedelta(seconds=7)
    assert gate.answered(now=later, is_probe=True, delivered=True) == [
        ShipperResumed(was_halted=False, away_s=7)
    ]
    assert gate.is_open
    assert gate.successes == 2


def test_a_halt_is_told_once_and_resolved() -> None:
    gate = Gate()
    (halted,) = fail(gate, NOW, is_halt=True)
    assert isinstance(halted, ShipperHalted)
    assert fail(gate, NOW, is_halt=True, is_probe=True) == []
    assert fail(gate, NOW, is_probe=True) == []
    assert gate.is_halted
    (resumed,) = gate.answered(now=NOW, is_probe=True, delivered=False)
    assert resumed == ShipperResumed(was_halted=True, away_s=0)
    assert not gate.is_halted
    assert gate.successes == 0


def test_the_reason_of_a_halt_is_what_the_last_probe_met() -> None:
    """Whoever repaired the secret must not read for ever that it is wrong."""
    gate = Gate()
    fail(gate, NOW, reason="503")
    assert gate.halt_reason is None
    fail(gate, NOW, reason="401", is_halt=True)
    fail(gate, NOW, reason="a straggler", is_halt=True)
    assert gate.halt_reason == "401"
    fail(gate, NOW, reason="503", is_probe=True)
    assert gate.halt_reason == "401; the last probe: 503"
    fail(gate, NOW, reason="404", is_halt=True, is_probe=True)
    assert gate.halt_reason == "404"
    gate.answered(now=NOW, is_probe=True, delivered=True)
    assert gate.halt_reason is None
    fail(gate, NOW, reason="503")
    assert not gate.is_halted


def test_near_is_shortly_before_the_post_or_since() -> None:
    gate = Gate()
    assert not gate.success_near(NOW)
    gate.answered(now=NOW, is_probe=False, delivered=True)
    assert gate.success_near(NOW - timedelta(seconds=60))
    assert gate.success_near(NOW + timedelta(seconds=NEAR_S))
    assert not gate.success_near(NOW + timedelta(seconds=NEAR_S + 1))


@given(st.lists(st.sampled_from(["a", "b", None]), max_size=200))
def test_never_more_than_20_of_the_last_50_die_for_one_reason(ends: list[str | None]) -> None:
    storm = StormGuard()
    happened: list[str | None] = []
    for end in ends:
        if end is None:
            storm.delivered([1])
            happened.append(None)
        elif storm.allows(end):
            storm.died(end)
            happened.append(end)
        for reason in ("a", "b"):
            assert happened[-STORM_WINDOW:].count(reason) <= STORM_DEAD_MAX


def test_the_21st_of_a_storm_is_not_allowed_until_others_went_through() -> None:
    storm = StormGuard()
    for _ in range(20):
        assert storm.allows("a")
        storm.died("a")
    assert not storm.allows("a")
    assert storm.allows("b")
    storm.delivered(range(29))
    assert not storm.allows("a")
    storm.delivered(range(1))
    assert storm.allows("a")


def test_suspects_go_in_halves_after_a_success_in_between() -> None:
    suspects = Suspects()
    batch = [record(n) for n in range(8)]
    suspects.failed(batch, successes=3, halve=False)
    assert not suspects.blames_records(batch, 3)
    assert suspects.blames_records(batch, 4)
    assert not suspects.blames_records([*batch, record(99)], 4)
    assert suspects.groups(batch) == ([batch], [])
    suspects.failed(batch, successes=4, halve=True)
    assert suspects.groups([*batch, record(50)]) == ([batch[:4], batch[4:], [record(50)]], [])
    suspects.cleared(batch[:4])
    assert suspects.groups(batch) == ([batch[4:], batch[:4]], [])
    suspects.failed(batch[4:6], successes=5, halve=True)
    assert suspects.groups(batch[4:]) == ([batch[6:]], batch[4:6])


def test_a_later_outage_never_makes_the_group_larger_again() -> None:
    suspects = Suspects()
    batch = [record(n) for n in range(8)]
    suspects.failed(batch, successes=0, halve=False)
    suspects.failed(batch, successes=1, halve=True)
    suspects.failed(batch, successes=1, halve=False)
    assert suspects.groups(batch) == ([batch[:4], batch[4:]], [])


def test_old_offenders_go_alone() -> None:
    offender = record(1, attempts=1)
    assert Suspects().groups([offender, record(2)]) == ([[record(2)]], [offender])


def test_suspects_are_bounded() -> None:
    suspects = Suspects()
    suspects.failed([record(n) for n in range(SUSPECTS_MAX + 5)], successes=0, halve=False)
    assert len(suspects) == SUSPECTS_MAX
    assert not suspects.blames_records([record(0)], 1)


@given(st.lists(st.sampled_from("abc"), max_size=12))
def test_distinct_keeps_every_record_and_no_id_twice(names: list[str]) -> None:
    records = [record(n, id_=name) for n, name in enumerate(names)]
    lists = distinct(records)
    assert sorted(r.rowid for group in lists for r in group) == list(range(len(names)))
    assert all(len({r.id for r in group}) == len(group) for group in lists)
