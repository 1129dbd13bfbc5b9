"""What a collector tells the backend again and again, and the scope table it gets back (contract §8)."""

from __future__ import annotations

from typing import Final

import msgspec

COUNTERS_MAX: Final = 10_000
INSTANCES_MAX: Final = 10_000
OPEN_STATES: Final = frozenset({"open", "WORKING", "CONNECTED"})
"""What Evolution and Baileys, WAHA's sessions and WAHA's engines call an instance that is connected."""


def heartbeat_path(name: str) -> str:
    """The path of a collector's heartbeat; ``name`` is a plain path segment."""
    return f"/api/collectors/{name}/heartbeat"


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """Records in the outbox by state."""

    waiting: int = 0
    claimed: int = 0
    dead: int = 0
    held: int = 0


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one instance in one hour by one channel. ``hour`` is RFC 3339, UTC, on the hour."""

    gateway: str
    instance: str
    hour: str
    channel: str
    count: int


class InstanceState(msgspec.Struct, frozen=True, kw_only=True):
    """The last connection state an instance told and when its last event of any kind came (RFC 3339).

    ``state_at`` is since when it has been connected, or has not: a loop of ``close`` and ``connecting`` does
    not begin anew.
    """

    gateway: str
    instance: str
    state: str | None = None
    state_at: str | None = None
    last_event_at: str | None = None


class BrokerState(msgspec.Struct, frozen=True, kw_only=True):
    """The RabbitMQ door of one gateway: whether it takes messages, and what waits there in our queues."""

    gateway: str
    consuming: bool
    trouble: str | None = None
    waiting: int | None = None
    dead: int | None = None
    last_message_at: str | None = None


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """The request. ``boot`` is new at each start, ``seq`` grows within it; ``epoch`` is the outbox file's."""

    name: str
    version: str
    epoch: str
    boot: str
    seq: int
    uptime_s: float
    depth: Depth
    oldest_age_s: float | None = None
    last_verdict: str | None = None
    halted: bool = False
    halt_reason: str | None = None
    disk_free_bytes: int | None = None
    fsync_s: float | None = None
    counters: tuple[Counter, ...] = ()
    instances: tuple[InstanceState, ...] = ()
    brokers: tuple[BrokerState, ...] = ()


class ScopeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the scope table: the account behind a gateway's instance."""

    gateway: str
    instance: str
    scope: str


class HeartbeatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: the whole scope table as the backend has it."""

    scopes: tuple[ScopeEntry, ...] = ()


encode_heartbeat = msgspec.json.Encoder().encode
decode_heartbeat = msgspec.json.Decoder(Heartbeat).decode
encode_answer = msgspec.json.Encoder().encode
decode_answer = msgspec.json.Decoder(HeartbeatAnswer).decode
