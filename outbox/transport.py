"""The port to the other side: one request with some records, and what came back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from outbox.record import Record
from outbox.verdict import TransportFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReceipt:
    """What the other side says of one record; ``rejected`` is believed only of a single post."""

    status: Literal["stored", "duplicate", "rejected"]
    code: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer, or the failure to get one.

    ``retry_after`` is the header as it came. ``receipts`` are by record id. ``too_large``: the 413 is of
    our own problem type. ``reason`` is a short code, equal for equal causes (the storm guard counts it),
    without anything of the body in it; ``detail`` says more to people.
    """

    status: int | TransportFailure
    retry_after: str | None = None
    receipts: Mapping[str, RecordReceipt] = field(default_factory=dict)
    too_large: bool = False
    reason: str = ""
    detail: str = ""


class Transport(Protocol):
    """Posts records; never raises for what the network or the other side does."""

    async def send(self, records: Sequence[Record]) -> Answer:
        """Post one record as a single, several as a batch (their ids differ), within a time limit."""
        ...
