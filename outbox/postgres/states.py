"""The states of a record, and which of them may follow which: the whole machine on one screen."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class RecordState(enum.StrEnum):
    """Where a record stands. The first four are values of ``engine.records.state``."""

    WAITING = "waiting"
    """Nobody has it; it is taken once it is due. ``waits_because`` says what it waits for."""
    CLAIMED = "claimed"
    """A worker has it, under a lease."""
    UNKNOWN = "unknown"
    """Nobody knows how its last try ended; never tried again without an answer to that."""
    ASKED = "asked"
    """A reconciler has an unknown one, under a lease."""
    DEAD = "dead"
    """Given up, with its body: a row of ``engine.dead``."""
    DELIVERED = "delivered"
    """Done: the row is gone and only the id stays, in ``engine.ids``."""


ALLOWED: Final[Mapping[RecordState, frozenset[RecordState]]] = {
    RecordState.WAITING: frozenset({RecordState.CLAIMED}),
    RecordState.CLAIMED: frozenset(
        {RecordState.WAITING, RecordState.UNKNOWN, RecordState.DELIVERED, RecordState.DEAD}
    ),
    RecordState.UNKNOWN: frozenset({RecordState.ASKED}),
    RecordState.ASKED: frozenset(
        {RecordState.UNKNOWN, RecordState.WAITING, RecordState.DELIVERED, RecordState.DEAD}
    ),
    RecordState.DEAD: frozenset({RecordState.WAITING}),
    RecordState.DELIVERED: frozenset(),
}

LEASED: Final = (RecordState.CLAIMED, RecordState.ASKED)
IN_ROWS: Final = (RecordState.WAITING, RecordState.CLAIMED, RecordState.UNKNOWN, RecordState.ASKED)
"""The states that ``engine.records`` holds; its CHECK names the same."""
