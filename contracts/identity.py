"""The one identity of a fact: a UUIDv5 over a JSON array, so that no joiner can be forged and no part shifts.

Any language can recompute it: ``JSON.stringify([1, scope, kind, ...parts])`` in UTF-8 is the name.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

import uuid_utils

from contracts.compact import compact_json
from contracts.events import Occurrence, Part, Stamp

NAMESPACE: Final = uuid.UUID("d0108709-ef11-53c7-8e68-9953e8afdb48")
_NAMESPACE: Final = uuid_utils.UUID(bytes=NAMESPACE.bytes)
VERSION: Final = 1


def event_id(scope: str, kind: str, parts: Sequence[Part], occurrence: Stamp | None = None) -> str:
    """Return uuid5(NAMESPACE, json([1, scope, kind, …parts])), lower-case and hyphenated (contract §4).

    ``OCCURRENCE`` among the parts is replaced by ``occurrence``; a tuple becomes an array; a lone surrogate
    stands as its escape, ``\\ud83d``.
    Raises ValueError when the parts ask for an occurrence and there is none.
    """
    return _uuid5([VERSION, scope, kind, *[_plain(part, occurrence) for part in parts]])


def stamp_occurrence(epoch: str, number: int) -> Stamp:
    """The collector's own stamp as an occurrence: its file's epoch and a number that only grows in it."""
    return ("stamp", epoch, number)


def heartbeat_id(name: str, boot: str, seq: int) -> str:
    """The ``X-Event-Id`` of one heartbeat (contract §8)."""
    return _uuid5(["heartbeat", name, boot, seq])


def batch_id(ids: Sequence[str]) -> str:
    """The ``X-Event-Id`` of a batch, from the event ids of its lines in order (contract §2)."""
    return _uuid5(["batch", *ids])


def blob_event_id(sha256: str) -> str:
    """The ``X-Event-Id`` of a blob, from the lower-case hex sha256 of its bytes (contract §7)."""
    return _uuid5(["blob", sha256])


def _plain(part: Part, occurrence: Stamp | None) -> object:
    if not isinstance(part, Occurrence):
        return part
    if occurrence is None:
        raise ValueError("the parts ask for an occurrence and there is none")
    return occurrence


def _uuid5(name: list[object]) -> str:
    return str(uuid_utils.uuid5(_NAMESPACE, compact_json(name).decode()))
