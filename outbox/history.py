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


def blob_members(record: KeptRecord) -> list[dict[str, object]]:
    """The blobs that it refers to; their bytes are in files of their sha256."""
    return [{"sha256": blob.sha256, "bytes": blob.bytes, "mime": blob.mime} for blob in record.blobs]
