"""The settings as a flat list of keys: name, environment variable, type, default and text of each."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Meta

from zaplake.settings import SecretList, Settings

ENV_PREFIX: Final = "ZAPLAKE_"
ENV_ALIASES: Final[Mapping[str, str]] = {"DATABASE_URL": "database_url", "AMQP_URL": "amqp.url"}

# The rooms own these fields; what an operator reads about them stands here.
TEXTS: Final[Mapping[str, str]] = {
    "capture.presence": "Store presence (typing, online) as rows instead of dropping it.",
    "capture.shed": (
        "Kinds left out while the outbox is over 80 % full, the first one first, and counted in `gap` rows; "
        "of presence, message.receipt, message.status, contact, chat."
    ),
    "capture.allow.kinds": "When set, only these kinds become rows.",
    "capture.allow.chat_classes": "When set, only these of direct, group, broadcast, newsletter.",
    "capture.allow.instances": "When set, only these `<gateway>/<instance>`.",
    "capture.deny.kinds": "Kinds that never become rows; deny wins over allow.",
    "capture.deny.chat_classes": "Chat classes that never become rows.",
    "capture.deny.instances": "Instances (`<gateway>/<instance>`) that never become rows.",
    "ingest.limits.body_bytes_max": "Largest body, also after decompression; above it 413.",
    "ingest.limits.bodies_bytes_max": "Bytes of bodies held at once; above it 503.",
    "ingest.limits.batch_lines_max": "Lines in one batch.",
    "ingest.limits.requests_max": "Connections or requests at once; above it 503.",
    "ingest.limits.group_commit": "Requests share commits; false commits each by itself (for comparison).",
    "ingest.limits.group_rows_max": "Rows in one commit.",
    "ingest.limits.group_bytes_max": "Bytes in one commit.",
    "ingest.limits.queue_rows_max": "Rows that wait for a commit; above it 503.",
    "ingest.limits.writer_connections": "Database connections that commit.",
    "ingest.limits.commit_s_max": "Seconds a commit may take before its requests get 503.",
    "ingest.limits.connect_s_max": "Seconds to connect to the database.",
    "ingest.limits.reconnect_pause_s": "Seconds between two attempts to connect.",
    "ingest.limits.transaction_pooler": "True when database_url leads to a pooler in transaction mode.",
    "ingest.limits.retry_after_s": "Seconds named in the Retry-After of a 503.",
    "ingest.limits.rate_events_per_s": "Events a second and sender, 429 above it; unset is off.",
    "ingest.limits.rate_burst": "Events a sender may be ahead of that rate.",
    "ingest.limits.rate_senders_max": "Senders whose rate is remembered.",
    "ingest.limits.token_known_s_max": "Seconds for which a revoked gateway token may still open a process.",
    "ingest.limits.token_look_pause_s": "Seconds between two looks at the gateway tokens in the database.",
    "ingest.limits.token_guesses_per_s": "Unknown gateway tokens a second and address; above it 429.",
    "ingest.limits.token_guesses_burst": "Unknown gateway tokens an address may be ahead of that rate.",
    "ingest.limits.direct_threads_max": "Heavy bodies of the direct door that are read at once.",
    "ingest.limits.drain_s_max": "Seconds that running requests get when the backend stops.",
    "ingest.limits.blob_bytes_max": "Largest blob; above it 413.",
    "ingest.limits.blob_spool_bytes_max": "Bytes of all blobs that are coming in; above it 503.",
    "ingest.limits.blob_grace_s": (
        "Seconds until a blob that no event has is removed; above any outage of a collector, at least a day."
    ),
    "ingest.limits.watch_every_s": "Seconds between two looks for alerts and due partitions; 0 is never.",
    "ingest.limits.silent_after_s": "Seconds without a heartbeat until `collector.silent`.",
    "ingest.limits.backlog_records": "Waiting records until `collector.backlog`.",
    "ingest.limits.backlog_age_s": "Age of the oldest waiting record until `collector.backlog`.",
    "ingest.limits.disk_free_bytes_min": "Free bytes on a collector's disk until `collector.disk`.",
    "ingest.limits.disconnected_after_s": "Seconds not connected until `instance.disconnected`.",
    "ingest.limits.instance_silent_after_s": "Seconds that a silence of an open instance may always last.",
    "ingest.limits.silent_expected_min": (
        "Events that the same hours of the last weeks brought at least, until none is `instance.silent` "
        "(`instance.deaf` for one kind)."
    ),
    "ingest.limits.silent_weeks": "Weeks that a silence is compared with.",
    "ingest.limits.silences_per_round_max": "Silences that one look for alerts compares.",
    "ingest.limits.channel_counts_days": "Days until `lake.channel_counts` forgets.",
    "ingest.limits.inbox_stalled_after_s": (
        "Seconds that an open transaction may hold the inbox's horizon back until `inbox.stalled`."
    ),
    "ingest.limits.inbox_behind_after_s": "Age of an event that no rule has seen until `inbox.behind`.",
    "ingest.limits.alert_repeat_s": "Seconds until an alert that lasts is said again.",
    "work.limits.poll_ms": "Milliseconds between two looks for new events; their delay, there is no NOTIFY.",
    "work.limits.batch_events": "Events in one batch; below 500 a backlog is read half as fast.",
    "work.limits.shards_per_batch": "Shards with little to read that share one batch.",
    "work.limits.connections": "Batches at once in one process, each on a connection; three more look on.",
    "work.limits.statement_s_max": "Seconds that one statement of a batch may take.",
    "work.limits.idle_s_max": (
        "Seconds that a worker may stand still in a batch before Postgres gives its shards to another."
    ),
    "work.limits.connect_s_max": "Seconds to connect to the database.",
    "work.limits.reconnect_pause_s": "Seconds between two attempts to connect.",
    "work.limits.retry_s": "Seconds until an event is tried again, a failure each; then it is dead.",
    "work.limits.failing_share_max": "Share of a batch that may fail before its consumer is paused.",
    "work.limits.failing_share_of_min": "Smaller batches have no such share.",
    "work.limits.failing_in_row_max": "Events in a row that may fail before their consumer is paused.",
    "work.limits.watch_every_s": "Seconds between two samples of progress and lag.",
    "work.limits.progress_days": "Days that `processed_at` of `lake.inbox` is kept, 14 at most.",
    "work.limits.drain_s_max": "Seconds that running batches get when the process stops.",
    "collector.limits.body_bytes_max": "Largest webhook body without its media; above it 413 and an alert.",
    "collector.limits.body_with_media_bytes_max": "Largest webhook body with them.",
    "collector.limits.media_bytes_min": "Bytes from which on a file in a body is cut out.",
    "collector.limits.media_count_max": "Files cut out of one body; what is more stays in it.",
    "collector.limits.media_in_flight_bytes_max": "Bytes of media on their way in at once; above it 503.",
    "collector.limits.bodies_in_flight_bytes_max": (
        "Bytes of bodies held at once; above it a webhook gets 503, and RabbitMQ waits."
    ),
    "collector.limits.heavy_body_bytes": "Larger bodies are translated in a thread.",
    "collector.limits.heavy_threads_max": "Threads for heavy bodies.",
    "collector.limits.connections_max": "Gateway connections at once.",
    "collector.limits.accept_backlog": "Connections the kernel queues before they are accepted.",
    "collector.limits.keep_alive_s": "Idle seconds before a gateway's connection is closed.",
    "collector.limits.instances_max": "Instances whose state is remembered.",
    "collector.limits.tally_rows_max": "Rows of the counters per instance, hour and channel.",
    "collector.limits.housekeeping_s": "Seconds between two looks at storms, backlog and fading alerts.",
    "collector.limits.alerts_kept_max": "Alerts remembered for the status.",
    "collector.limits.alert_repeat_s": "Seconds until an alert that lasts is said again.",
    "collector.limits.clock_skew_alert_s": "Seconds between our clock and the backend's until `clock.skew`.",
    "collector.limits.storm_events_max": "Equal connection updates of one instance that become rows.",
    "collector.limits.storm_window_s": "Seconds in which they are counted.",
    "collector.limits.batch_records_max": "Records in one shipped batch.",
    "collector.limits.batch_bytes_max": "Bytes in one shipped batch.",
    "collector.limits.batches_in_flight_max": "Batches on their way at once.",
    "collector.limits.solos_in_flight_max": "Records that failed by themselves, each alone on its way.",
    "collector.limits.blobs_in_flight_max": "Images and the like that are uploaded at once.",
    "collector.limits.request_timeout_s": "Seconds until a post to the backend is repeated.",
    "collector.limits.client_keep_alive_s": "Idle seconds before the connection to the backend is given up.",
    "collector.limits.drain_s": "Seconds a stop waits for answers on their way; above request_timeout_s.",
    "collector.limits.answer_bytes_max": "Largest answer of the backend that is read.",
    "collector.limits.backlog_alert_records": "Waiting records above which an alert is raised.",
    "collector.limits.backlog_alert_age_s": "Age of the oldest waiting record above which it is raised too.",
    "collector.limits.outbox_rows_max": "Records that wait before the gateway gets 503; alert at 80 %.",
    "collector.limits.outbox_bytes_max": (
        "Bytes of bodies and blobs that wait before the gateway gets 503; alert at 80 %."
    ),
    "collector.limits.outbox_wal_bytes_max": "Write-ahead log above which the outbox takes nothing new.",
    "collector.limits.outbox_reserve_bytes": "Room kept on the disk for shipping what waits when it is full.",
    "collector.limits.load_lines_max": "Lines of one step of `collector load`.",
    "collector.limits.load_bytes_max": "Bytes of one step of `collector load`.",
    "collector.limits.line_bytes_max": "Longest line of a JSONL file.",
    "collector.limits.stop_grace_s": "Seconds that running requests get when the collector stops.",
    "collector.limits.amqp_batch_bytes_max": "Bytes of RabbitMQ messages in one commit.",
    "collector.limits.amqp_hold_s_max": (
        "Seconds that messages are kept unacknowledged while the outbox takes nothing."
    ),
    "collector.limits.amqp_reconnect_s_max": "Longest pause between two attempts to reach RabbitMQ.",
    "collector.limits.amqp_disconnected_alert_s": "Seconds without RabbitMQ until `amqp.disconnected`.",
    "collector.limits.amqp_watch_s": "Seconds between two looks at our queue.",
    "collector.limits.channel_grace_s": (
        "Seconds that an event's copies by other channels have time to come until it is counted."
    ),
    "collector.limits.channel_counts_max": "Counts of channels that are kept for the backend.",
    "collector.limits.amqp_mute_s": "Seconds that messages may wait while none comes until `amqp.mute`.",
    "collector.limits.channel_silent_s": (
        "Seconds without an event by one door while the other brings some until `channel.silent`."
    ),
}

NO_KEYS: Final = frozenset(
    {
        *(
            f"ingest.limits.{name}"
            for name in ("dsn", "secrets", "metrics_open", "blob_folder", "blob_store_url")
        ),
        *(f"work.limits.{name}" for name in ("dsn", "transaction_pooler", "metrics_open")),
    }
)
"""Set by database_url, signing_secrets, data_dir, and keys of ingest and of work."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One thing that can be set."""

    path: tuple[str, ...]
    hint: Any
    """Its type, with the bounds of its Meta."""
    default: object
    text: str

    @property
    def is_secret_list(self) -> bool:
        """True for tuples of Secret."""
        return bool(getattr(self.hint, "__origin__", self.hint) == SecretList)

    @property
    def name(self) -> str:
        """As in TOML, dotted."""
        return ".".join(self.path)

    @property
    def env(self) -> str:
        """As in the environment."""
        return ENV_PREFIX + "_".join(self.path).upper()


@functools.cache
def all_keys() -> Mapping[str, Key]:
    """Every key by its dotted name, in the order of the settings."""
    return {key.name: key for key in _walk(Settings, (), Settings())}


def build(values: Mapping[str, object]) -> Settings:
    """Settings from values by dotted name; what is missing has its default."""
    return typing.cast("Settings", _build(Settings, (), values, Settings()))


def _walk(kind: type[Any], prefix: tuple[str, ...], defaults: object) -> Iterator[Key]:
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        path, default, hint = (*prefix, field.name), getattr(defaults, field.name), hints[field.name]
        if dataclasses.is_dataclass(default):
            yield from _walk(type(default), path, default)
        elif ".".join(path) not in NO_KEYS:
            yield Key(path=path, hint=hint, default=default, text=_text(path, hint))


def _text(path: tuple[str, ...], hint: Any) -> str:
    for note in getattr(hint, "__metadata__", ()):
        if isinstance(note, Meta) and note.description:
            return str(note.description)
    return TEXTS.get(".".join(path), "")


def _build(
    kind: type[Any], prefix: tuple[str, ...], values: Mapping[str, object], defaults: object
) -> object:
    chosen: dict[str, object] = {}
    for field in dataclasses.fields(kind):
        path, default = (*prefix, field.name), getattr(defaults, field.name)
        if dataclasses.is_dataclass(default):
            chosen[field.name] = _build(type(default), path, values, default)
        else:
            chosen[field.name] = values.get(".".join(path), default)
    return kind(**chosen)
