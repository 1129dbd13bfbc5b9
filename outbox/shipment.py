"""One request's way: post, judge the answer by contract §3, settle, split or give back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from outbox.clock import Clock
from outbox.gate import Gate, StormGuard
from outbox.leases import Leases
from outbox.record import Record
from outbox.schedule import next_attempt_at, parse_retry_after
from outbox.shipper_events import RecordDead, RecordDelayed, ShipperEvent
from outbox.store import Settlement
from outbox.suspects import Suspects
from outbox.transport import Answer, Transport
from outbox.verdict import Verdict, classify_response, splits

NO_RECEIPT: Final = "the answer has no receipt for it"


@dataclass(slots=True, kw_only=True)
class Counters:
    """Since the start of the process."""

    requests: int = 0
    delivered: int = 0
    dead: int = 0
    delayed: int = 0


@dataclass(slots=True, kw_only=True)
class Destination:
    """What is known of the other side, shared by all requests to it."""

    transport: Transport
    leases: Leases
    clock: Clock
    on_event: Callable[[ShipperEvent], None]
    gate: Gate = field(default_factory=Gate)
    storm: StormGuard = field(default_factory=StormGuard)
    suspects: Suspects = field(default_factory=Suspects)
    aside: list[Record] = field(default_factory=list)
    """Singles that failed while the gate was shut; they step aside so that the next probe is another."""
    counters: Counters = field(default_factory=Counters)
    last_verdict: Verdict | None = None
    last_failure: str | None = None

    async def step_back(self) -> None:
        """Give back the records that stepped aside."""
        records, self.aside = self.aside, []
        await self.leases.release(records)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Post:
    records: Sequence[Record]
    sent_at: datetime
    answer: Answer
    is_probe: bool

    @property
    def alone(self) -> bool:
        return len(self.records) == 1

    @property
    def status(self) -> int | None:
        return self.answer.status if isinstance(self.answer.status, int) else None

    @property
    def reason(self) -> str:
        return self.answer.reason or str(self.answer.status)

    @property
    def explained(self) -> str:
        return f"{self.reason}: {self.answer.detail}" if self.answer.detail else self.reason


async def ship(destination: Destination, records: Sequence[Record], *, is_probe: bool = False) -> None:
    """Post claimed records in one request or, where the answers ask for it, in several.

    When it returns each of them is settled, released, put aside or lost to another holder: that one is not
    sent. A gate that was shut in the meantime stops it.
    """
    waiting: list[Sequence[Record]] = [records]
    while waiting:
        if not (destination.gate.is_open or is_probe):
            await destination.leases.release([record for batch in waiting for record in batch])
            return
        batch = destination.leases.still_held(waiting.pop())
        if not batch:
            continue
        sent_at = destination.clock.now()
        answer = await destination.transport.send(batch)
        destination.counters.requests += 1
        post = _Post(records=batch, sent_at=sent_at, answer=answer, is_probe=is_probe)
        waiting.extend(await _judge(destination, post))


async def _judge(destination: Destination, post: _Post) -> list[list[Record]]:
    """Act on one answer; returns what must be posted next, last first."""
    answer, alone = post.answer, post.alone
    if alone:
        receipt = answer.receipts.get(post.records[0].id)
        has_receipt = receipt is not None and receipt.status != "rejected"
    else:
        has_receipt = any(record.id in answer.receipts for record in post.records)
    verdict = classify_response(
        answer.status, receipt=has_receipt, own_too_large=answer.too_large, alone=alone
    )
    destination.last_verdict = verdict
    destination.last_failure = None if verdict is Verdict.DELIVERED else post.reason
    if verdict is Verdict.DELIVERED:
        return await _delivered(destination, post)
    if splits(answer.status, alone=alone):
        half = (len(post.records) + 1) // 2
        return [list(post.records[half:]), list(post.records[:half])]
    if verdict is Verdict.DEAD and destination.storm.allows(post.reason):
        await _dead(destination, post)
    else:
        is_storm = verdict is Verdict.DEAD
        await _failed(destination, post, is_halt=is_storm or verdict is Verdict.HALT, is_storm=is_storm)
    return []


async def _delivered(destination: Destination, post: _Post) -> list[list[Record]]:
    now = destination.clock.now()
    delivered: list[Record] = []
    rejected: list[Record] = []
    missing: list[Record] = []
    for record in post.records:
        receipt = post.answer.receipts.get(record.id)
        kind = missing if receipt is None else rejected if receipt.status == "rejected" else delivered
        kind.append(record)
    for event in destination.gate.answered(now=now, is_probe=post.is_probe, delivered=bool(delivered)):
        destination.on_event(event)
    destination.storm.delivered(delivered)
    destination.suspects.cleared(post.records)
    destination.counters.delivered += len(delivered)
    settlements = [
        Settlement(rowid=record.rowid, lease=record.lease, verdict=Verdict.DELIVERED, now=now)
        for record in delivered
    ]
    settlements += [_delayed(destination, post, record, NO_RECEIPT, NO_RECEIPT) for record in missing]
    await destination.leases.settle(settlements)
    return [[record] for record in reversed(rejected)]


async def _dead(destination: Destination, post: _Post) -> None:
    (record,) = post.records
    now = destination.clock.now()
    destination.storm.died(post.reason)
    destination.suspects.cleared(post.records)
    settlement = Settlement(
        rowid=record.rowid,
        lease=record.lease,
        verdict=Verdict.DEAD,
        now=now,
        status=post.status,
        reason=post.explained,
    )
    await destination.leases.settle([settlement])
    destination.counters.dead += 1
    destination.on_event(RecordDead(id=record.id, label=record.label, status=post.status, reason=post.reason))
    for event in destination.gate.answered(now=now, is_probe=post.is_probe, delivered=False):
        destination.on_event(event)


async def _failed(destination: Destination, post: _Post, *, is_halt: bool, is_storm: bool) -> None:
    """Blame the destination, which shuts the gate, or the records, which are isolated."""
    gate, suspects = destination.gate, destination.suspects
    if not post.is_probe and _blames_records(destination, post):
        if post.alone:
            suspects.cleared(post.records)
            delayed = _delayed(destination, post, post.records[0], post.reason, post.explained)
            await destination.leases.settle([delayed])
            return
        suspects.failed(post.records, successes=gate.successes, halve=True)
        await destination.leases.release(post.records)
        return
    suspects.failed(post.records, successes=gate.successes, halve=False)
    now = destination.clock.now()
    reason = f"storm of dead letters: {post.reason}" if is_storm else post.reason
    events = gate.failed(
        now=now,
        jitter=destination.clock.jitter(),
        reason=reason,
        is_halt=is_halt,
        is_probe=post.is_probe,
        retry_after_s=parse_retry_after(post.answer.retry_after, now=now),
    )
    for event in events:
        destination.on_event(event)
    if post.alone:
        destination.aside.append(replace(post.records[0], body=b""))
    else:
        await destination.leases.release(post.records)


def _blames_records(destination: Destination, post: _Post) -> bool:
    """Nobody is blamed while the destination is known to be away: that is what a flapping one looks like."""
    gate = destination.gate
    if not gate.is_open:
        return False
    if destination.suspects.blames_records(post.records, gate.successes):
        return True
    is_offender = post.alone and post.records[0].attempts > 0
    return is_offender and gate.success_near(post.sent_at)


def _delayed(
    destination: Destination, post: _Post, record: Record, reason: str, explained: str
) -> Settlement:
    """``reason`` is told to the outside; ``explained`` may hold a stranger's words and stays in the row."""
    now = destination.clock.now()
    due_at = next_attempt_at(
        now=now,
        attempts=record.attempts + 1,
        jitter=destination.clock.jitter(),
        retry_after_s=parse_retry_after(post.answer.retry_after, now=now),
    )
    destination.counters.delayed += 1
    destination.on_event(
        RecordDelayed(
            id=record.id, label=record.label, attempts=record.attempts + 1, due_at=due_at, reason=reason
        )
    )
    return Settlement(
        rowid=record.rowid,
        lease=record.lease,
        verdict=Verdict.RETRY,
        now=now,
        due_at=due_at,
        status=post.status,
        reason=explained,
    )
