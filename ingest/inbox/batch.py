"""One batch of one consumer: claim, read, decide, apply, settle; effects and cursor in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg

from contracts.inbox import LoggedEvent
from ingest.inbox import statements
from ingest.inbox.config import InboxConfig
from ingest.inbox.consumer import Consumer
from ingest.inbox.failing import Failed, StormError, StormGuard, error_text, retry_after_s
from ingest.lane import DATABASE_ERRORS

DUE_EVENTS_MAX: Final = 20
"""Parked events that one transaction tries again."""
SMALL_BYTES_MAX: Final = 64 * 1024
"""Larger payloads are read one by one, and few of them fill a batch."""
COMPRESSED_BYTES_MAX: Final = 1024
"""What is stored compressed in so few bytes is small; of more it is looked up how long it is."""
LARGE_EVENTS_MAX: Final = 4
GONE: Final = "the event is no longer in the log"
_OUTAGE_CLASSES: Final = frozenset({"08", "25", "40", "53", "55", "57", "58", "F0", "XX"})
"""Connection, transaction state, rollback (deadlock), resources, locks, shutdown and timeouts, I/O."""

_Decided: TypeAlias = tuple[LoggedEvent, list[tuple[int, Sequence[Any]]]]
_Connection: TypeAlias = "asyncpg.Connection[Any]"
_Result = TypeVar("_Result")
_event: Final = partial(tuple.__new__, LoggedEvent)
"""LoggedEvent of a row; for every event of the log, so without a call into Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a batch did, committed."""

    ran: int = 0
    """Events that were handed to rules."""
    failed: int = 0
    dead: int = 0
    unread: frozenset[int] = frozenset()
    """Shards of it that may have more below the same horizon."""
    positions: Mapping[int, int] = field(default_factory=dict)
    """Where the cursors of the shards are that were free."""
    judged: tuple[Sequence[int], frozenset[int]] = ((), frozenset())
    """The events that the guard counts, in order, and which of them failed."""


class ApplyFailedError(Exception):
    """A rule could not write the effects that it was given, and it is no outage."""

    def __init__(self, rule: str, error: Exception) -> None:
        super().__init__(error_text(rule, error))


class BatchTransaction:
    """``contracts.inbox.Transaction`` on the batch's connection."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    async def execute(self, statement: str, *arguments: Any) -> None:
        await self._connection.fetch(statement, *arguments)

    async def fetch(self, statement: str, *arguments: Any) -> Sequence[Mapping[str, Any]]:
        rows: Sequence[Mapping[str, Any]] = await self._connection.fetch(statement, *arguments)
        return rows


class Batches:
    """Runs the batches of one consumer, one at a time on each connection."""

    def __init__(self, consumer: Consumer, config: InboxConfig) -> None:
        self.consumer, self._config = consumer, config
        self._begin = statements.begin(config)
        self._guard = StormGuard(
            share_max=config.failing_share_max,
            share_of_min=config.failing_share_of_min,
            in_row_max=config.failing_in_row_max,
        )

    async def run(self, connection: _Connection, shards: Sequence[int], horizon: int) -> Outcome:
        """Read on in those of ``shards`` that are free, up to ``horizon``, and run the rules.

        Raises StormError, after which nothing of the batch is there, and what the driver raises.
        """
        work = partial(self._run, connection, shards, horizon)
        try:
            outcome = await self._in_transaction(connection, partial(work, is_careful=False))
        except ApplyFailedError:
            outcome = await self._in_transaction(connection, partial(work, is_careful=True))
        self._guard.take(*outcome.judged)
        return outcome

    async def run_due(self, connection: _Connection) -> Outcome:
        """Try parked events again whose time has come."""
        return await self._in_transaction(connection, lambda: self._run_due(connection))

    async def pause(self, connection: _Connection, reason: str) -> bool:
        """Stop the consumer in all processes; False when it was paused already."""
        return await connection.fetchval(statements.PAUSE, self.consumer.name, reason) is not None

    async def _in_transaction(
        self, connection: _Connection, work: Callable[[], Awaitable[_Result]]
    ) -> _Result:
        await connection.execute(self._begin)
        try:
            result = await work()
            await connection.execute(statements.COMMIT)
        except (ApplyFailedError, StormError):
            await connection.execute(statements.ROLLBACK)
            raise
        return result

    async def _run(
        self, connection: _Connection, shards: Sequence[int], horizon: int, *, is_careful: bool
    ) -> Outcome:
        name, limit = self.consumer.name, self._config.batch_events
        claimed = await connection.fetch(statements.CLAIM, name, shards)
        if not claimed:
            return Outcome()
        before = {row["shard"]: row["position"] for row in claimed}
        rows = await connection.fetch(
            statements.READ,
            list(before),
            list(before.values()),
            min(horizon, claimed[0]["horizon"]),
            limit,
            self.consumer.kinds,
            self.consumer.payload_kinds,
            SMALL_BYTES_MAX,
            COMPRESSED_BYTES_MAX,
        )
        if not rows:
            return Outcome(positions=before)
        is_full = len(rows) >= limit
        large = self._large(rows)
        if len(large) > LARGE_EVENTS_MAX:
            is_full, rows = True, rows[: large.pop(LARGE_EVENTS_MAX)]
        positions = {row[0]: row[1] for row in rows}  # of each shard the last row, which has its highest seq
        events = [_event(row) for row in rows if row[2] is not None]
        if large:
            events = await self._whole(connection, events, [rows[n] for n in large[:LARGE_EVENTS_MAX]])
        guarded = [event.seq for event in events if event.seq > claimed[0]["guarded_from"]]
        failures_max = self._guard.failures_max(len(guarded)) + len(events) - len(guarded)
        failed = await self._take(connection, events, failures_max, is_careful=is_careful)
        judged = guarded, frozenset(one.event.seq for one in failed).intersection(guarded)
        self._guard.check(*judged)
        dead = await self._park(connection, failed, dict.fromkeys((one.event.seq for one in failed), 0))
        settled = await connection.fetch(statements.SETTLE, name, list(positions), list(positions.values()))
        if len(settled) != len(positions):
            raise asyncpg.InterfaceError("a cursor went away under its lock")
        whole = positions.keys() - {rows[-1][0]} if is_full else before.keys()
        return Outcome(
            ran=len(events),
            failed=len(failed),
            dead=dead,
            unread=frozenset(before.keys() - whole),
            positions=before | positions,
            judged=judged,
        )

    def _large(self, rows: Sequence[asyncpg.Record]) -> list[int]:
        """Which rows lack a payload that a rule reads."""
        kinds, payload = self.consumer.payload_kinds, LoggedEvent._fields.index("payload")
        return [
            place
            for place, row in enumerate(rows)
            if row[payload] is None and row[2] is not None and (kinds is None or row[3] in kinds)
        ]

    async def _whole(
        self, connection: _Connection, events: Sequence[LoggedEvent], large: Sequence[asyncpg.Record]
    ) -> list[LoggedEvent]:
        """The events, those of ``large`` with their payloads."""
        found = await connection.fetch(
            statements.READ_WHOLE, [row[0] for row in large], [row[1] for row in large]
        )
        whole = {event.seq: event for event in map(_event, found)}
        return [whole.get(event.seq, event) for event in events]

    async def _take(
        self, connection: _Connection, events: Sequence[LoggedEvent], failures_max: int, *, is_careful: bool
    ) -> list[Failed]:
        """Decide and apply; an event that fails has left nothing."""
        decided, failed = self._decide(events)
        if decided and is_careful:
            await self._apply_parts(connection, decided, failed, failures_max)
        elif decided:
            await self._apply(connection, decided)
        return failed

    def _decide(self, events: Sequence[LoggedEvent]) -> tuple[list[_Decided], list[Failed]]:
        decided: list[_Decided] = []
        failed: list[Failed] = []
        rules_for = self.consumer.rules_for
        for event in events:
            effects: list[tuple[int, Sequence[Any]]] = []
            for place, rule in rules_for(event.kind):
                try:
                    decision = rule.decide(event)
                except Exception as error:
                    failed.append(Failed(event=event, error=error_text(rule.name, error)))
                    break
                if decision:
                    effects.append((place, decision))
            else:
                if effects:
                    decided.append((event, effects))
        return decided, failed

    async def _apply(self, connection: _Connection, decided: Sequence[_Decided]) -> None:
        transaction = BatchTransaction(connection)
        for place, rule in enumerate(self.consumer.rules):
            effects = [
                effect
                for _, by_rule in decided
                for its_place, decision in by_rule
                if its_place == place
                for effect in decision
            ]
            if effects:
                try:
                    await rule.apply(transaction, effects)
                except Exception as error:
                    if is_outage(error):
                        raise
                    raise ApplyFailedError(rule.name, error) from error

    async def _apply_parts(
        self, connection: _Connection, decided: Sequence[_Decided], failed: list[Failed], failures_max: int
    ) -> None:
        """Apply; where that fails, apply the halves, down to the events that are at fault."""
        await connection.execute(statements.SAVEPOINT)
        try:
            await self._apply(connection, decided)
        except ApplyFailedError as error:
            await connection.execute(statements.ROLLBACK_PART)
            if len(decided) == 1:
                failed.append(Failed(event=decided[0][0], error=str(error)))
                if len(failed) > failures_max:
                    raise StormError(f"more than {failures_max} events of a batch failed") from error
                return
            for half in (decided[: len(decided) // 2], decided[len(decided) // 2 :]):
                await self._apply_parts(connection, half, failed, failures_max)
        await connection.execute(statements.RELEASE_PART)

    async def _run_due(self, connection: _Connection) -> Outcome:
        name = self.consumer.name
        due = await connection.fetch(statements.CLAIM_DUE, name, DUE_EVENTS_MAX)
        attempts: dict[int, int] = {row["seq"]: row["attempts"] for row in due}
        rows = await connection.fetch(
            statements.READ_WHOLE, [row["shard"] for row in due], [row["seq"] for row in due]
        )
        events = [LoggedEvent._make(row) for row in rows]
        decided, failed = self._decide(events)
        if decided:
            await self._apply_parts(connection, decided, failed, len(events))
        at_fault = {one.event.seq for one in failed}
        await connection.fetch(
            statements.UNPARK, name, [event.seq for event in events if event.seq not in at_fault]
        )
        gone = attempts.keys() - {event.seq for event in events}
        if gone:
            await connection.fetch(statements.LOSE_PARKED, name, list(gone), GONE)
        dead = await self._park(connection, failed, attempts)
        return Outcome(ran=len(events), failed=len(failed), dead=dead + len(gone))

    async def _park(
        self, connection: _Connection, failed: Sequence[Failed], attempts: Mapping[int, int]
    ) -> int:
        """Note the failures; returns how many events are dead now."""
        if not failed:
            return 0
        counts = [attempts[one.event.seq] + 1 for one in failed]
        delays = [retry_after_s(count, self._config.retry_s) for count in counts]
        await connection.fetch(
            statements.PARK,
            self.consumer.name,
            [one.event.seq for one in failed],
            [one.event.shard for one in failed],
            [one.event.event_id for one in failed],
            counts,
            delays,
            [one.error for one in failed],
        )
        return delays.count(None)


def is_outage(error: Exception) -> bool:
    """Whether the database, not the rule or the event, is at fault: then the whole batch comes again."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "XX")[:2] in _OUTAGE_CLASSES
    return isinstance(error, DATABASE_ERRORS) and not isinstance(error, ValueError)
