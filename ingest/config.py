"""Everything that limits or steers ingest, checked once at the start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.blob_upload import PART_BYTES_MAX
from contracts.envelope import BODY_BYTES_MAX

MIB: Final = 1024 * 1024
DAY_S: Final = 86_400.0
CANCEL_S: Final = 2.0
"""How much longer than the server's statement timeout a client waits before it gives the commit up."""


class ConfigError(ValueError):
    """A setting that would be dangerous; the process must not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestConfig:
    """Settings of one ingest process. Raises ConfigError for what must not start."""

    dsn: str
    secrets: tuple[bytes, ...]
    """Signing secrets, newest first; each is accepted, so that they rotate without a gap."""

    body_bytes_max: int = BODY_BYTES_MAX
    bodies_bytes_max: int = 128 * MIB
    """All bodies in flight together (received and inflated, until they are committed); above it 503."""
    batch_lines_max: int = 1000
    requests_max: int = 4096
    """Connections or requests at once; above it the server answers 503 by itself."""

    group_commit: bool = True
    """False commits a request at a time on each connection: the reference of the benchmarks."""
    group_rows_max: int = 500
    group_bytes_max: int = 8 * MIB
    queue_rows_max: int = 50_000
    writer_connections: int = 3
    commit_s_max: float = 10.0
    """Statement timeout of one commit; the client gives up a little later and calls it unknown."""
    connect_s_max: float = 5.0
    reconnect_pause_s: float = 0.5
    """After a failed connect the requests of this time get their 503 at once."""
    transaction_pooler: bool = False
    """The DSN leads to a pooler in transaction mode: no prepared statements by name, no session settings."""

    retry_after_s: int = 2
    """The Retry-After of a 503."""
    rate_events_per_s: float | None = None
    """Events a second and sender (429 above it); None is off."""
    rate_burst: int = 1000
    rate_senders_max: int = 10_000

    token_known_s_max: float = 10.0
    """How old a process's knowledge of the gateways' tokens may be: a revoked one works no longer."""
    token_look_pause_s: float = 1.0
    """Between two looks at the tokens because of an unknown one: a flood of them costs no more."""
    token_guesses_per_s: float = 1.0
    token_guesses_burst: int = 20
    """Unknown tokens from one address; above it 429 without a look."""
    direct_threads_max: int = 2
    """Heavy bodies of the direct door that are read at once, each in a thread."""

    drain_s_max: float = 10.0
    """How long a stop waits for requests and commits that run."""

    blob_folder: Path | None = None
    """Where blobs come in, and where they stay without a bucket; None: this backend takes none."""
    blob_store_url: str = ""
    """The bucket that they go to; empty: the folder."""
    blob_bytes_max: int = 512 * MIB
    """One blob; above it 413."""
    blob_spool_bytes_max: int = 2048 * MIB
    """All blobs that are coming in together; above it 503."""
    blob_grace_s: float = 30 * DAY_S
    """How long a blob without an event is kept: longer than any outage of a collector."""

    watch_every_s: float = 10.0
    """Period of the alert and partition task; 0 switches it off."""
    silent_after_s: float = 90.0
    """Three missed heartbeats."""
    backlog_records: int = 10_000
    backlog_age_s: float = 300.0
    disk_free_bytes_min: int = 1024 * MIB
    """Of a collector's data folder."""
    disconnected_after_s: float = 300.0
    inbox_stalled_after_s: float = 60.0
    """An ingest commit takes ``commit_s_max`` at most: what is open longer is not ours, or hangs."""
    inbox_behind_after_s: float = 300.0
    instance_silent_after_s: float = 900.0
    """Shorter silences are none, however many events were expected."""
    silent_expected_min: float = 20.0
    """Events that the same hours of the weeks before had, until nothing at all is no chance."""
    silent_weeks: int = 4
    silences_per_round_max: int = 100
    """Silences whose weeks before are read in one round of the watch; the others wait for the next."""
    channel_counts_days: int = 400
    """How long lake.channel_counts remembers."""
    alert_repeat_s: float = 6 * 3600.0

    metrics_open: bool = False
    """``/metrics`` for everybody who reaches the door; else for this machine."""

    def __post_init__(self) -> None:
        if not self.secrets or not all(self.secrets):
            raise ConfigError("a signing secret is missing or empty")
        if self.bodies_bytes_max < self.body_bytes_max:
            raise ConfigError(
                "bodies_bytes_max is below body_bytes_max: the largest body could never be taken"
            )
        for name in (
            "body_bytes_max",
            "batch_lines_max",
            "requests_max",
            "group_rows_max",
            "group_bytes_max",
            "writer_connections",
            "rate_burst",
            "rate_senders_max",
            "token_guesses_burst",
            "direct_threads_max",
            "blob_bytes_max",
            "silent_weeks",
            "silences_per_round_max",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1")
        for name in (
            "commit_s_max",
            "connect_s_max",
            "drain_s_max",
            "silent_after_s",
            "instance_silent_after_s",
            "silent_expected_min",
            "alert_repeat_s",
            "token_known_s_max",
            "token_guesses_per_s",
        ):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be above 0")
        self._refuse_pairs()
        if self.rate_events_per_s is not None and self.rate_events_per_s <= 0:
            raise ConfigError("rate_events_per_s must be above 0, or unset")

    def _refuse_pairs(self) -> None:
        """Values that are fine alone."""
        pairs = (
            (
                self.queue_rows_max < self.batch_lines_max,
                "queue_rows_max is below batch_lines_max: the largest batch could never be taken",
            ),
            (
                self.blob_spool_bytes_max < self.blob_bytes_max,
                "blob_spool_bytes_max is below blob_bytes_max: the largest blob could never come in",
            ),
            (
                self.blob_folder is not None and self.bodies_bytes_max < PART_BYTES_MAX,
                f"bodies_bytes_max is below {PART_BYTES_MAX}: no part of a blob could be taken",
            ),
            (
                self.blob_grace_s < DAY_S,
                "blob_grace_s is below a day: blobs would go before their events came",
            ),
            (
                self.channel_counts_days < 7 * (self.silent_weeks + 2),
                "channel_counts_days is too short for silent_weeks: nothing would be usual",
            ),
        )
        for is_misfit, reason in pairs:
            if is_misfit:
                raise ConfigError(reason)
