"""A heartbeat of many instances is never larger than what the backend reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from collector.fitting import HEARTBEAT_BYTES_MAX, encode_fitting
from contracts.heartbeat import (
    INSTANCES_MAX,
    Counter,
    Depth,
    Heartbeat,
    InstanceState,
    decode_heartbeat,
    encode_heartbeat,
)
from ingest.heartbeat import HEARTBEAT_BYTES_MAX as READ_BYTES_MAX
from ingest.heartbeat import read_heartbeat

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
HOUR = "2026-05-01T11:00:00Z"
KINDS = tuple(f"group.participants.{number:02}" for number in range(20))


def instance(number: int, silent_s: float, kinds: int = len(KINDS)) -> InstanceState:
    at = (NOW - timedelta(seconds=silent_s)).isoformat()
    return InstanceState(
        gateway="evolution",
        instance=f"loja-{number:05}",
        state="open",
        state_at=at,
        last_event_at=at,
        kinds=dict.fromkeys(KINDS[:kinds], at),
    )


def heartbeat(*instances: InstanceState, counters: int = 0) -> Heartbeat:
    return Heartbeat(
        name="edge-1",
        version="1",
        epoch="e",
        boot="b",
        seq=1,
        uptime_s=1.0,
        depth=Depth(),
        instances=instances,
        counters=tuple(
            Counter(gateway="evolution", instance=f"loja-{n:05}", hour=HOUR, channel="webhook", count=5)
            for n in range(counters)
        ),
    )


def test_the_largest_is_read_by_the_backend_and_names_every_instance() -> None:
    largest = heartbeat(*(instance(n, silent_s=n) for n in range(INSTANCES_MAX)), counters=5000)
    assert len(encode_heartbeat(largest)) > READ_BYTES_MAX
    body = encode_fitting(largest)
    assert len(body) <= HEARTBEAT_BYTES_MAX < READ_BYTES_MAX
    beat, _ = read_heartbeat("edge-1", body)
    assert beat.counters == largest.counters
    by_name = {state.instance: state for state in beat.instances}
    assert len(by_name) == INSTANCES_MAX
    assert by_name["loja-00000"] == largest.instances[0], "the one that spoke last is told whole"
    assert by_name[f"loja-{INSTANCES_MAX - 1:05}"].kinds == {}


def test_what_fits_is_told_as_it_is() -> None:
    beat = heartbeat(instance(1, 5), instance(2, 3))
    assert encode_fitting(beat) == encode_heartbeat(beat)


@given(
    silent_s=st.lists(st.integers(0, 10**6), max_size=8, unique=True),
    kinds=st.lists(st.integers(1, len(KINDS)), min_size=8, max_size=8),
    share=st.floats(0, 1),
)
def test_kinds_go_before_instances_and_the_longest_silent_first(
    silent_s: list[int], kinds: list[int], share: float
) -> None:
    whole = heartbeat(*(instance(n, quiet_s, kinds[n]) for n, quiet_s in enumerate(silent_s)))
    least = len(encode_heartbeat(heartbeat()))
    bytes_max = least + int(share * (len(encode_heartbeat(whole)) - least))
    body = encode_fitting(whole, bytes_max)
    assert len(body) <= bytes_max
    told = {state.instance: state for state in decode_heartbeat(body).instances}
    fates = []
    for _, state in sorted(zip(silent_s, whole.instances, strict=True), key=lambda pair: -pair[0]):
        fate = told.get(state.instance)
        fates.append("gone" if fate is None else "whole" if fate == state else "bare")
        assert fate in (None, state, msgspec.structs.replace(state, kinds={}))
    assert fates == sorted(fates, key=("gone", "bare", "whole").index)
    assert not {"gone", "whole"} <= set(fates)
