"""Ends a batch of claimed records: each kind of end is one statement over arrays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from outbox.postgres import statements as sql
from outbox.postgres.config import RECORDS_PER_STATEMENT_MAX
from outbox.postgres.dead import count
from outbox.postgres.enqueue import Connection, readable
from outbox.postgres.states import RecordState
from outbox.store import REASON_CHARS_MAX, Settlement
from outbox.verdict import Verdict

_NOW: Final = timedelta(0)


def columns(pairs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Rowids and leases as two arrays."""
    return [rowid for rowid, _ in pairs], [lease for _, lease in pairs]


def needs_transaction(settlements: Sequence[Settlement]) -> bool:
    """True when more than one statement follows, which are to commit together."""
    if len(settlements) > RECORDS_PER_STATEMENT_MAX:
        return True
    return len({settlement.verdict for settlement in settlements}) > 1


async def settle(connection: Connection, settlements: Sequence[Settlement]) -> int:
    """By verdict. HALT is no end of a record: it goes back as it was."""
    by_verdict: dict[Verdict, list[Settlement]] = {}
    for settlement in settlements:
        by_verdict.setdefault(settlement.verdict, []).append(settlement)
    ended = 0
    for verdict, chosen in by_verdict.items():
        for start in range(0, len(chosen), RECORDS_PER_STATEMENT_MAX):
            ended += await _end(connection, verdict, chosen[start : start + RECORDS_PER_STATEMENT_MAX])
    return ended


async def doubt(connection: Connection, settlements: Sequence[Settlement]) -> int:
    ended = 0
    for start in range(0, len(settlements), RECORDS_PER_STATEMENT_MAX):
        chosen = settlements[start : start + RECORDS_PER_STATEMENT_MAX]
        ended += await _come_back(connection, chosen, RecordState.UNKNOWN)
    return ended


async def _end(connection: Connection, verdict: Verdict, chosen: Sequence[Settlement]) -> int:
    mine = columns([(s.rowid, s.lease) for s in chosen])
    match verdict:
        case Verdict.DELIVERED:
            return count(await connection.execute(sql.DELIVER, *mine))
        case Verdict.DEAD:
            statuses, reasons = [s.status for s in chosen], [_reason(s) for s in chosen]
            return count(await connection.execute(sql.BURY, *mine, statuses, reasons))
        case Verdict.RETRY:
            return await _come_back(connection, chosen, RecordState.WAITING)
        case Verdict.HALT:
            return count(await connection.execute(sql.RELEASE, *mine))


async def _come_back(connection: Connection, chosen: Sequence[Settlement], to: RecordState) -> int:
    told = await connection.execute(
        sql.COME_BACK,
        *columns([(s.rowid, s.lease) for s in chosen]),
        [_NOW if s.due_at is None else s.due_at - s.now for s in chosen],
        [int(s.spent) for s in chosen],
        [s.status for s in chosen],
        [_reason(s) for s in chosen],
        str(to),
    )
    return count(told)


def _reason(settlement: Settlement) -> str:
    return readable(settlement.reason[:REASON_CHARS_MAX])
