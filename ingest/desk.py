"""The backend's calm side on one connection: heartbeats, readiness, alerts and months made ahead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import asyncpg
import msgspec
import structlog

from contracts.heartbeat import Depth, Heartbeat, HeartbeatAnswer, ScopeEntry, decode_heartbeat
from ingest import coverage, partitions, statements
from ingest.calm import CalmConnection
from ingest.config import IngestConfig
from ingest.inbox.watch import inbox_alerts
from ingest.long_watch import Findings, LongWatch
from ingest.row import UnavailableError
from ingest.watch import Alert, Beat, due_alerts, has_faded, judged

log: Final = structlog.get_logger("ingest")

READY_S_MAX: Final = 3.0
"""A database that needs longer for a ping is not ready."""
SCOPES_MAX: Final = 50_000
COLLECTORS_MAX: Final = 10_000
NOTES_MAX: Final = 1000
SUBJECT_BYTES_MAX: Final = 2000
"""A longer name is nobody's, and the index of the alerts could not hold it: it would end each round."""

OnAlert: TypeAlias = Callable[[str, str, str, str], None]
"""Takes what, alert, subject and detail; must return at once and never raise."""
_encode: Final = msgspec.json.Encoder().encode


def nobody(_what: str, _alert: str, _subject: str, _detail: str) -> None:
    """An ``OnAlert`` for where nobody is told."""


class LakeDesk:
    """``ingest.app.Desk`` on Postgres, and the periodic watch. One statement at a time."""

    def __init__(self, config: IngestConfig, on_alert: OnAlert = nobody) -> None:
        """``on_alert`` is told of what this process's rounds raised, repeated and resolved."""
        self._config, self._on_alert = config, on_alert
        self._calm = CalmConnection(config, name="zaplake-ingest-desk")
        self._notes: dict[tuple[str, str], Alert] = {}
        self._long = LongWatch(config)
        self.open = True

    def scope_changed(self, gateway: str, instance: str) -> None:
        """Note that an instance came with another scope than the one it keeps; the watch raises the alert."""
        self._note(Alert(name="scope.changed", subject=f"{gateway}/{instance}"))

    def token_refused(self, gateway: str) -> None:
        """Note that a gateway came without a known token; the watch raises the alert."""
        self._note(Alert(name="direct.token", subject=gateway))

    async def keep_heartbeat(self, beat: Heartbeat, report: bytes) -> HeartbeatAnswer:
        """Store a heartbeat; returns the scope table. Raises UnavailableError."""

        async def keep(connection: asyncpg.Connection[Any]) -> HeartbeatAnswer:
            async with connection.transaction():
                await connection.execute(statements.KEEP_HEARTBEAT, beat.name, beat.boot, beat.seq, report)
                await coverage.keep(connection, beat)
            rows = await connection.fetch(statements.SCOPE_TABLE, SCOPES_MAX)
            return HeartbeatAnswer(
                scopes=tuple(ScopeEntry(gateway=row[0], instance=row[1], scope=row[2]) for row in rows),
                keeps_coverage=True,
            )

        return await self._calm.run(keep)

    async def ready(self) -> bool:
        """Whether events can be committed now."""

        async def ping(connection: asyncpg.Connection[Any]) -> bool:
            await connection.fetch(statements.PING)
            return True

        try:
            return self.open and await self._calm.run_within(READY_S_MAX, ping)
        except UnavailableError:
            return False

    async def heartbeat_ages(self, limit: int) -> list[tuple[str, float]]:
        """(collector, seconds since its last heartbeat), the newest ``limit``. Raises UnavailableError."""

        async def read(connection: asyncpg.Connection[Any]) -> list[tuple[str, float]]:
            return [(row[0], row[1]) for row in await connection.fetch(statements.HEARTBEAT_AGES, limit)]

        return await self._calm.run_within(READY_S_MAX, read)

    async def run(self) -> None:
        """Settle alerts and make months ahead, every ``watch_every_s`` seconds, until cancelled."""
        while self._config.watch_every_s > 0:
            try:
                await self.look_once()
            except UnavailableError as error:
                log.warning("watch.skipped", reason=str(error))
            await asyncio.sleep(self._config.watch_every_s)

    async def close(self) -> None:
        """Drop the connection."""
        self.open = False
        self._calm.drop()

    async def look_once(self) -> None:
        """One round of the watch. Raises UnavailableError."""
        await self._calm.run(self._look)

    async def _look(self, connection: asyncpg.Connection[Any]) -> None:
        """The alerts come first: a month that cannot be made must not hide what the collectors say."""
        await self._look_for_alerts(connection)
        try:
            for name in await partitions.make_ahead(connection):
                log.info("partition.made", name=name)
        except asyncpg.LockNotAvailableError:
            pass  # the next round tries again
        except partitions.CatchAllMissingError as error:
            log.warning("partition.catch_all_missing", reason=str(error))

    async def _look_for_alerts(self, connection: asyncpg.Connection[Any]) -> None:
        """Another process that is at it makes this one skip the round."""
        noted = dict(self._notes)
        async with connection.transaction():
            if not await connection.fetchval(statements.WATCH_LOCK):
                return
            beats = [_beat(row) for row in await connection.fetch(statements.LAST_BEATS, COLLECTORS_MAX)]
            now = await connection.fetchval(statements.NOW)
            found = await self._long.look(connection, beats, now)
            due = [*due_alerts(beats, self._config, now), *found.due, *noted.values()]
            due += await inbox_alerts(connection, self._config)
            due = [alert for alert in due if len(alert.subject.encode()) <= SUBJECT_BYTES_MAX]
            told = await self._settle(connection, due, beats, found)
        for key in noted:
            self._notes.pop(key, None)
        for happening, alert, subject, detail in told:  # committed: no other process tells it too
            log.warning(f"alert.{happening}", alert=alert, subject=subject)
            self._on_alert(happening, alert, subject, detail)

    def _note(self, alert: Alert) -> None:
        """At most a thousand different ones until the next round."""
        if len(self._notes) < NOTES_MAX:
            self._notes[alert.name, alert.subject] = alert

    async def _settle(
        self, connection: asyncpg.Connection[Any], due: list[Alert], beats: list[Beat], found: Findings
    ) -> list[tuple[str, str, str, str]]:
        """What changed, as ``OnAlert`` takes it."""
        columns = ([a.name for a in due], [a.subject for a in due], [_encode(a.detail) for a in due])
        repeated = await connection.fetch(statements.REPEAT_ALERTS, *columns, self._config.alert_repeat_s)
        raised = await connection.fetch(statements.RAISE_ALERTS, *columns)
        standing = {(alert.name, alert.subject): alert.words() for alert in due}
        over = [
            (name, subject)
            for name, subject, quiet_s, raised_at in await connection.fetch(statements.OPEN_ALERTS)
            if (name, subject) not in standing
            and (
                judged(name, subject, beats, self._config)
                or has_faded(name, quiet_s, self._config)
                or found.over(name, subject, raised_at)
            )
        ]
        resolved = await connection.fetch(
            statements.RESOLVE_ALERTS, [name for name, _ in over], [subject for _, subject in over]
        )
        return [
            (happening, name, subject, standing.get((name, subject), ""))
            for happening, rows in (("raised", raised), ("repeated", repeated), ("resolved", resolved))
            for name, subject in rows
        ]


def _beat(row: asyncpg.Record) -> Beat:
    """A report that this release cannot read, or would refuse, counts as one that says nothing."""
    name, age_s, report = row
    try:
        heartbeat = decode_heartbeat(report)
    except msgspec.MsgspecError:
        heartbeat = Heartbeat(name=name, version="", epoch="", boot="", seq=0, uptime_s=0, depth=Depth())
    return Beat(name=name, age_s=age_s, report=heartbeat)
