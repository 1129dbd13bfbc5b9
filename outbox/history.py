"""The history of a record as JSON members, the same wherever a record is written down or shown."""

from __future__ import annotations

from outbox.kept import KeptRecord
from outbox.store import DeadRecord


def history_members(record: KeptRecord | DeadRecord) -> dict[str, object]:
    """What it is called, where it came from, when, and what became of it so far."""
    return {
        "label": record.label,
        "channel": record.channel,
        "status": record.status,
        "reason": record.reason,
        "attempts": record.attempts,
        "created_at": record.created_at.isoformat(),
    }
