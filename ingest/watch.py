"""Decides which alerts stand, from what the collectors last told (contract §8). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from contracts.heartbeat import OPEN_STATES, Heartbeat, InstanceState
from contracts.times import as_datetime
from ingest.config import MIB, IngestConfig

SILENT, BACKLOG, DISK = "collector.silent", "collector.backlog", "collector.disk"
FADING: Final = frozenset({"direct.token"})
"""Alerts of things that happen and that nothing calls over: they end when they were not repeated for long."""
DISCONNECTED = "instance.disconnected"
INBOX = "inbox."
"""How the alerts of ``ingest.inbox.watch`` begin; each round looks at all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The last heartbeat of a collector and how long ago it came, by the database's clock."""

    name: str
    age_s: float
    report: Heartbeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that a person should know; one stands at a time for a name and a subject."""

    name: str
    subject: str
    detail: Mapping[str, object] = field(default_factory=dict)

    def words(self) -> str:
        """The detail for people."""
        return ", ".join(f"{name} {value}" for name, value in self.detail.items())


def due_alerts(beats: Sequence[Beat], config: IngestConfig, now: datetime) -> list[Alert]:
    """All alerts that stand now. A silent collector has one alert; what it said before is not judged."""
    alerts: list[Alert] = []
    for beat in beats:
        if beat.age_s > config.silent_after_s:
            alerts.append(Alert(name=SILENT, subject=beat.name, detail={"age_s": round(beat.age_s)}))
            continue
        alerts.extend(_backlog(beat, config))
        alerts.extend(_disk(beat, config))
        for state in beat.report.instances:
            alerts.extend(_instance(beat, state, config, now))
    return alerts


def judged(name: str, subject: str, beats: Sequence[Beat], config: IngestConfig) -> bool:
    """Whether this round could see that the alert is over: its collector speaks, or was retired.

    It remembers its instances over a restart; of one that was deleted it says nothing any more.
    """
    if name.startswith(INBOX):
        return True
    if name not in (SILENT, BACKLOG, DISK, DISCONNECTED):
        return False
    collector = subject if name in (SILENT, BACKLOG, DISK) else subject.split("/", 1)[0]
    return all(beat.age_s <= config.silent_after_s for beat in beats if beat.name == collector)


def has_faded(name: str, quiet_s: float, config: IngestConfig) -> bool:
    """Whether nothing more has come: what lasts is repeated every ``alert_repeat_s``."""
    return name in FADING and quiet_s > 2 * config.alert_repeat_s


def _backlog(beat: Beat, config: IngestConfig) -> Iterator[Alert]:
    waiting, age_s = beat.report.depth.waiting, beat.report.oldest_age_s or 0.0
    if waiting > config.backlog_records or (waiting and age_s > config.backlog_age_s):
        yield Alert(
            name=BACKLOG, subject=beat.name, detail={"waiting": waiting, "oldest_age_s": round(age_s)}
        )


def _disk(beat: Beat, config: IngestConfig) -> Iterator[Alert]:
    free = beat.report.disk_free_bytes
    if free is not None and free < config.disk_free_bytes_min:
        yield Alert(name=DISK, subject=beat.name, detail={"free_mib": free // MIB})


def _instance(beat: Beat, state: InstanceState, config: IngestConfig, now: datetime) -> Iterator[Alert]:
    subject = f"{beat.name}/{state.gateway}/{state.instance}"
    if state.state is None or state.state in OPEN_STATES:
        return
    age_s = _age_s(state.state_at, now)
    if age_s is not None and age_s > config.disconnected_after_s:
        yield Alert(name=DISCONNECTED, subject=subject, detail={"state": state.state, "age_s": round(age_s)})


def _age_s(text: str | None, now: datetime) -> float | None:
    at = as_datetime(text)
    return None if at is None else (now - at).total_seconds()
