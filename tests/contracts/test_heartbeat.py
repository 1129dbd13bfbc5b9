"""A heartbeat and its answer survive the wire; an older or newer side is understood."""

from __future__ import annotations

import json

import msgspec
import pytest

from contracts.heartbeat import (
    Counter,
    Depth,
    Heartbeat,
    HeartbeatAnswer,
    InstanceState,
    ScopeEntry,
    decode_answer,
    decode_heartbeat,
    encode_answer,
    encode_heartbeat,
    heartbeat_path,
)

HEARTBEAT = Heartbeat(
    name="edge-1",
    version="0.1.0",
    epoch="b7c1",
    boot="b00t",
    seq=3,
    uptime_s=12.5,
    depth=Depth(waiting=2, dead=1),
    oldest_age_s=1.5,
    last_verdict="DELIVERED",
    counters=(
        Counter(
            gateway="evolution", instance="loja", hour="2025-12-05T16:00:00Z", channel="webhook", count=7
        ),
    ),
    instances=(InstanceState(gateway="evolution", instance="loja", state="open"),),
)


def test_a_heartbeat_survives_the_wire() -> None:
    assert decode_heartbeat(encode_heartbeat(HEARTBEAT)) == HEARTBEAT
    answer = HeartbeatAnswer(scopes=(ScopeEntry(gateway="evolution", instance="loja", scope="store-1"),))
    assert decode_answer(encode_answer(answer)) == answer
    assert decode_answer(b"{}") == HeartbeatAnswer()


def test_what_a_newer_collector_adds_is_ignored_and_what_must_be_there_is_missed() -> None:
    body = json.loads(encode_heartbeat(HEARTBEAT))
    assert decode_heartbeat(json.dumps({**body, "mood": "fine"}).encode()) == HEARTBEAT
    del body["boot"]
    with pytest.raises(msgspec.ValidationError):
        decode_heartbeat(json.dumps(body).encode())


def test_its_path_names_the_collector() -> None:
    assert heartbeat_path("edge-1") == "/api/collectors/edge-1/heartbeat"
