"""Logged events for the rules' own tests, without a log."""

from __future__ import annotations

import itertools
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from contracts.inbox import LoggedEvent

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
_numbers = itertools.count(1)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def event(kind: str, payload: object, *, second: float = 0, **members: Any) -> LoggedEvent:
    """An event of the instance evolution/shop that happened at ``second``, and arrived then."""
    envelope = members.pop("envelope", None)
    usual: dict[str, Any] = {
        "shard": 0,
        "seq": next(_numbers),
        "event_id": uuid.uuid4(),
        "kind": kind,
        "type": "t",
        "gateway": "evolution",
        "instance": "shop",
        "scope": "evolution/shop",
        "chat_jid": None,
        "occurred_at": at(second),
        "received_at": at(second),
        "payload": json.dumps(payload).encode(),
        "envelope": None if envelope is None else json.dumps(envelope).encode(),
    }
    return LoggedEvent(**usual | members)
