"""What limits and steers one queue on Postgres; dangerous pairs are refused at the start."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

PRIORITY_MAX: Final = 9
"""0 goes first. A few levels, so that a claim can ask for each of them (``statements.CLAIM``)."""
RECORDS_PER_STATEMENT_MAX: Final = 1_000
"""Records that one statement enqueues or settles; longer calls go in slices of one transaction."""
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of one record."""


class OnLapse(enum.Enum):
    """What becomes of a claimed record whose worker let the lease run out: it died, or it hangs."""

    TRY_AGAIN = "try again"
    """It waits again. For receivers that know a repetition by its id: customer webhooks, forwards."""
    ASK = "ask"
    """It is unknown, and a reconciler has to find out. For what must not happen twice: sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """One queue. Raises ValueError for what must not start."""

    on_lapse: OnLapse = OnLapse.TRY_AGAIN
    lease_s: float = 60.0
    """How long a record is held without a renewal, by the database's clock."""
    call_s_max: float = 20.0
    """The longest effect (one request with all its timeouts) that a worker begins under a lease."""
    sweep_rows_max: int = 1_000
    """Lapsed leases that one statement ends."""
    remember_days: float = 30.0
    """How long after its enqueue an id is known, so that a copy is a duplicate."""
    forget_rows_max: int = 1_000
    """Ids that one statement forgets."""

    def __post_init__(self) -> None:
        if min(self.lease_s, self.call_s_max, self.sweep_rows_max, self.forget_rows_max) <= 0:
            raise ValueError("the limits of a queue must be above 0")
        if self.lease_s < 2 * self.call_s_max:
            raise ValueError(
                f"a lease of {self.lease_s} s is less than twice the longest call ({self.call_s_max} s): "
                "a record could be taken by a second worker while the first one is still sending it"
            )

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_s)

    @property
    def renew_every_s(self) -> float:
        """Two renewals may fail before a lease runs out."""
        return self.lease_s / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolConfig:
    """The connections that the queues of one process share."""

    dsn: str
    connections_max: int = 4
    connections_s_max: float = 10.0
    """How long a call waits for a free one of them."""
    connect_s_max: float = 5.0
    statement_s_max: float = 10.0
    transaction_pooler: bool = False
    """The DSN leads to a pooler in transaction mode: no prepared statements by name, no session settings."""
