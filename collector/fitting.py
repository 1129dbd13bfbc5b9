"""A heartbeat that the backend takes: what says least of its instances is left out above a size."""

from __future__ import annotations

from typing import Final

import msgspec
import structlog

from contracts.heartbeat import Heartbeat, InstanceState, encode_heartbeat

HEARTBEAT_BYTES_MAX: Final = 6 * 1024 * 1024
"""Well below the 8 MiB that a backend reads; 10,000 instances of many kinds would be 12."""

_log = structlog.get_logger("collector.heartbeat")
_encode: Final = msgspec.json.Encoder().encode


def encode_fitting(heartbeat: Heartbeat, bytes_max: int = HEARTBEAT_BYTES_MAX) -> bytes:
    """Encode it, with fewer instances where it is too large.

    The kinds of those that were silent for longest go first, then these instances themselves. What is too
    large without any instance stays so.
    """
    body = encode_heartbeat(heartbeat)
    over = len(body) - bytes_max
    if over <= 0:
        return body
    kept: list[InstanceState] = sorted(heartbeat.instances, key=lambda state: state.last_event_at or "")
    without_kinds = 0
    for place, state in enumerate(kept):
        if over <= 0:
            break
        kept[place] = bare = msgspec.structs.replace(state, kinds={})
        over -= len(_encode(state)) - len(_encode(bare))
        without_kinds += 1
    gone = 0
    while over > 0 and gone < len(kept):
        over -= len(_encode(kept[gone])) + len(",")
        gone += 1
    _log.warning("heartbeat.shortened", instances_without_kinds=without_kinds - gone, instances_left_out=gone)
    return encode_heartbeat(msgspec.structs.replace(heartbeat, instances=tuple(kept[gone:])))
