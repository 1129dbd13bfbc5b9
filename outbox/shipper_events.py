"""What the shipper tells the outside, as a closed set; nothing in it comes from a body."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipperPaused:
    """The destination is away; all stays, one probe at a time. Told once an outage."""

    name: ClassVar[str] = "shipper.paused"
    reason: str
    next_probe_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipperHalted:
    """The destination answers as if we were wrong, not the record; a person must look. Told once."""

    name: ClassVar[str] = "shipper.halted"
    reason: str
    next_probe_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipperResumed:
    """A probe went through. ``was_halted``: it resolves the alert of a ShipperHalted."""

    name: ClassVar[str] = "shipper.resumed"
    was_halted: bool
    away_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDead:
    """One record became a dead letter."""

    name: ClassVar[str] = "record.dead"
    id: str
    label: str
    status: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDelayed:
    """One record fails while others go through; it has a back-off of its own."""

    name: ClassVar[str] = "record.delayed"
    id: str
    label: str
    attempts: int
    due_at: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailing:
    """The store could not be used; the shipper tries again by itself. Told once until it recovers."""

    name: ClassVar[str] = "store.failing"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecovered:
    name: ClassVar[str] = "store.recovered"


ShipperEvent: TypeAlias = (
    ShipperPaused
    | ShipperHalted
    | ShipperResumed
    | RecordDead
    | RecordDelayed
    | StoreFailing
    | StoreRecovered
)
