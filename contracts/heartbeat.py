"""What a collector tells the backend again and again, and the scope table it gets back (contract §8)."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

COUNTERS_MAX: Final = 10_000
INSTANCES_MAX: Final = 10_000
COVERAGE_MAX: Final = 2_000
COUNT_MAX: Final = 2**53
SECONDS_MAX: Final = 10**10
"""317 years: no clock that was set tells more, and a time less that is still one."""
CHANNELS_MAX: Final = 16
DELAYS_MAX: Final = 64
OPEN_STATES: Final = frozenset({"open", "WORKING", "CONNECTED"})
"""What Evolution and Baileys, WAHA's sessions and WAHA's engines call an instance that is connected."""


LIVE_CHANNELS: Final = frozenset({"webhook", "rabbitmq"})
"""What brings events as they happen, and may fall silent."""

_Count: TypeAlias = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
_Seconds: TypeAlias = Annotated[float, Meta(ge=-SECONDS_MAX, le=SECONDS_MAX)]
"""Below 0 when the clock was set back."""
_Name: TypeAlias = Annotated[str, Meta(max_length=300)]


def heartbeat_path(name: str) -> str:
    """The path of a collector's heartbeat; ``name`` is a plain path segment."""
    return f"/api/collectors/{name}/heartbeat"


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """Records in the outbox by state."""

    waiting: _Count = 0
    claimed: _Count = 0
    dead: _Count = 0
    held: _Count = 0


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one instance in one hour by one channel. ``hour`` is RFC 3339, UTC, on the hour."""

    gateway: str
    instance: str
    hour: str
    channel: str
    count: int


class Coverage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of one instance and kind, first seen in one hour, that exactly these channels brought.

    The count is the whole of this collector's file (``epoch``) and only grows: of two, the larger is true.
    ``delays`` counts them by what lay between the first two channels: at most 2**n milliseconds at place n.
    """

    gateway: _Name
    instance: _Name
    hour: str
    """RFC 3339, UTC, on the hour."""
    kind: _Name
    channels: Annotated[tuple[_Name, ...], Meta(max_length=CHANNELS_MAX)]
    """In alphabetical order."""
    count: _Count
    delay_ms_max: _Count = 0
    delays: Annotated[tuple[_Count, ...], Meta(max_length=DELAYS_MAX)] = ()


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
    kinds: dict[str, str] = {}
    """When the last event of each kind came, denied ones too; none for what came by a file."""


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
    seq: _Count
    uptime_s: _Seconds
    depth: Depth
    oldest_age_s: _Seconds | None = None
    last_verdict: str | None = None
    halted: bool = False
    halt_reason: str | None = None
    disk_free_bytes: Annotated[int, Meta(ge=0)] | None = None
    fsync_s: float | None = None
    counters: tuple[Counter, ...] = ()
    instances: tuple[InstanceState, ...] = ()
    brokers: tuple[BrokerState, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    """What grew since the backend said that it keeps it."""


class ScopeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the scope table: the account behind a gateway's instance."""

    gateway: str
    instance: str
    scope: str


class HeartbeatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: the whole scope table as the backend has it, and whether it keeps the coverage told."""

    scopes: tuple[ScopeEntry, ...] = ()
    keeps_coverage: bool = False


encode_heartbeat = msgspec.json.Encoder().encode
decode_heartbeat = msgspec.json.Decoder(Heartbeat).decode
encode_answer = msgspec.json.Encoder().encode
decode_answer = msgspec.json.Decoder(HeartbeatAnswer).decode
