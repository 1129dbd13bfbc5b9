"""Everything that limits or steers one process that runs rules, checked once at the start."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.config import ConfigError


class InboxConfigError(ConfigError):
    """One of the inbox's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxConfig:
    """Settings of one process of the inbox. Raises InboxConfigError for what must not start."""

    dsn: str
    poll_ms: int = 25
    """The longest that a new event waits to be seen; there is no NOTIFY."""
    batch_events: int = 1000
    shards_per_batch: int = 16
    """Shards with little to read share a transaction, up to this many."""
    connections: int = 3
    """Batches at once in this process; one more connection looks for work."""

    statement_s_max: float = 10.0
    idle_s_max: float = 5.0
    """A worker that stands still between two statements loses its batch, and another takes it."""
    connect_s_max: float = 5.0
    reconnect_pause_s: float = 0.5
    transaction_pooler: bool = False

    retry_s: tuple[float, ...] = (5.0, 30.0, 180.0, 900.0, 3600.0, 21600.0)
    """After each failure of an event; after the last of them it is dead."""
    failing_share_max: float = 0.05
    failing_share_of_min: int = 100
    """A batch of fewer events has no share."""
    failing_in_row_max: int = 20

    watch_every_s: float = 10.0
    """Period of the progress samples and of the figures."""
    progress_days: float = 14.0
    drain_s_max: float = 15.0
    metrics_open: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_events", "shards_per_batch", "connections", "failing_in_row_max"):
            if getattr(self, name) < 1:
                raise InboxConfigError(f"{name} must be at least 1")
        for name in ("statement_s_max", "connect_s_max", "reconnect_pause_s", "watch_every_s"):
            if getattr(self, name) <= 0:
                raise InboxConfigError(f"{name} must be above 0")
        if not 1 <= self.poll_ms <= 1000:
            raise InboxConfigError("poll_ms must be between 1 and 1000")
        if self.idle_s_max < 1:
            raise InboxConfigError("idle_s_max is below 1 s: a busy moment would cost a batch")
        if self.drain_s_max <= self.statement_s_max:
            raise InboxConfigError("drain_s_max is not above statement_s_max: a stop would cut batches off")
        if not self.retry_s or min(self.retry_s) <= 0:
            raise InboxConfigError("retry_s must name one delay at least, each above 0")
        if not 0 < self.progress_days <= 14:
            raise InboxConfigError("progress_days must be above 0 and at most 14, as far as the view looks")
        if not 0 < self.failing_share_max <= 1:
            raise InboxConfigError("failing_share_max must be above 0 and at most 1")
        if self.failing_share_of_min * self.failing_share_max < 1:
            raise InboxConfigError("failing_share_of_min is so small that one failing event would pause all")
