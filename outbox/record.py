"""The engine's vocabulary: what is put, what waits, how it ends. It never hears the word WhatsApp."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """A place in the order of one store file: its random epoch and a number that only grows."""

    epoch: str
    number: int


MakeId: TypeAlias = "Callable[[Stamp], str]"


class GuardMode(enum.Enum):
    SNAPSHOT = "snapshot"
    TRANSITION = "transition"
    CLEAR = "clear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Suppression inside the row's own transaction: a record equal to the subject's last is not put."""

    key: str
    mode: GuardMode
    members: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBlob:
    """Bytes too large for a body, in a finished file on the store's own disk, which the store takes over."""

    sha256: str
    """64 hex digits in lower case: its name in the store, and on the other side."""
    bytes: int
    path: Path
    mime: str = ""
    """Opaque to the engine; empty when it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record to put. ``id`` may be a function of the stamp, which is taken in the row's transaction."""

    id: str | MakeId
    body: bytes
    digest: bytes = b""
    channel: str = ""
    label: str = ""
    """Opaque to the engine; shown in lists."""
    guard: Guard | None = None
    blobs: tuple[NewBlob, ...] = ()
    """What must be delivered before the record is claimed."""


class PutOutcome(enum.Enum):
    STORED = "stored"
    DUPLICATE = "duplicate"
    """Id and digest are waiting, delivered or dead already."""
    CONFLICT = "conflict"
    """The id is known with another digest; stored as a record of its own, so that the other side sees it."""
    SUPPRESSED = "suppressed"


class PutResult(NamedTuple):
    outcome: PutOutcome
    id: str
    """Empty when suppressed before an id was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A waiting record that was claimed: only the holder of ``lease`` may settle it."""

    rowid: int
    id: str
    digest: bytes = b""
    """Empty where a queue keeps none."""
    body: bytes
    label: str
    attempts: int
    created_at: datetime
    lease: int
