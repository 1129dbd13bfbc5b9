"""What may be left out when the outbox fills up, least valuable first; every omission becomes a gap row.

Nothing is shed unless the operator named its kind (``capture.shed``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeAlias

from collector.config import SHED_FROM_SHARE
from collector.translate import Captured
from contracts.envelope import encode_event
from contracts.events import OCCURRENCE
from contracts.identity import event_id, stamp_occurrence
from contracts.scopes import Source
from outbox.record import NewRecord, Stamp
from outbox.store import Store

GAP: Final = "gap"
GAP_S_MAX: Final = 60.0
"""A gap that lasts gives a row this often."""

_Key: TypeAlias = tuple[Source, str, str]


def kinds_shed(order: Sequence[str], share: float) -> frozenset[str]:
    """The kinds to leave out at that fullness: the first of ``order`` from 80 % on, all before 100 %."""
    step = (1 - SHED_FROM_SHARE) / max(1, len(order))
    return frozenset(kind for n, kind in enumerate(order) if share >= SHED_FROM_SHARE + n * step)


@dataclass(slots=True, kw_only=True)
class _Gap:
    key: str
    first_at: datetime
    last_at: datetime
    count: int = 0
    under_way: int = 0


class Shedder:
    """Counts what is left out, per instance and kind. Each omission is durable before it is answered.

    The count stands in a held record of the store, which is put when the gap ends, lasts long, or at the next
    start. What a gateway repeats is counted again.
    """

    def __init__(self, store: Store, order: Sequence[str], now: Callable[[], datetime]) -> None:
        self._store, self._order, self._now = store, order, now
        self._kinds: frozenset[str] = frozenset()
        self._open: dict[_Key, _Gap] = {}
        self._ended: list[_Gap] = []
        self._number = 0

    def feel(self, share: float) -> None:
        """Hear how full the outbox is."""
        self._kinds = kinds_shed(self._order, share)

    def sheds(self, kind: str) -> bool:
        return kind in self._kinds

    async def shed(self, captured: Captured) -> None:
        """Leave it out. Durable at return; raises what the store raises, and then it was not left out."""
        gap = self._gap(captured)
        gap.count += 1
        gap.under_way += 1
        gap.last_at = self._now()
        try:
            await self._store.hold(gap.key, _record(captured, gap))
        except BaseException:
            gap.count -= 1
            raise
        finally:
            gap.under_way -= 1

    async def release(self) -> bool:
        """Put the rows of gaps that ended or last long; True when there was one. For every few seconds."""
        oldest = self._now() - timedelta(seconds=GAP_S_MAX)
        for key, gap in list(self._open.items()):
            if key[2] not in self._kinds or gap.first_at <= oldest:
                self._ended.append(self._open.pop(key))
        ready = [gap for gap in self._ended if not gap.under_way]
        for gap in ready:
            await self._store.release_held(key=gap.key)
            self._ended.remove(gap)
        return bool(ready)

    def _gap(self, captured: Captured) -> _Gap:
        key = (captured.source, captured.scope, captured.kind)
        gap = self._open.get(key)
        if gap is None:
            self._number += 1
            now = self._now()
            name = json.dumps([GAP, *captured.source, captured.kind, now.isoformat(), self._number])
            gap = self._open[key] = _Gap(key=name, first_at=now, last_at=now)
        return gap


def _record(captured: Captured, gap: _Gap) -> NewRecord:
    gateway, instance = captured.source
    told = {
        "kind": captured.kind,
        "count": gap.count,
        "from": gap.first_at.isoformat(),
        "to": gap.last_at.isoformat(),
        "reason": "the outbox was filling up",
    }
    payload = json.dumps(told).encode()
    body = encode_event(
        type=GAP,
        chat_jid=None,
        payload=payload,
        envelope=None,
        instance=instance,
        gateway=gateway,
        scope=captured.scope,
        channel="webhook",
        kind=GAP,
        occurred_at=gap.first_at.isoformat(),
        occurred_from="collector",
        captured_at=gap.last_at.isoformat(),
    )
    fingerprint = hashlib.sha256(payload).hexdigest()
    identity = partial(_identity, captured.scope, captured.kind, fingerprint)
    return NewRecord(id=identity, body=body, channel="webhook", label=f"{gateway}/{instance} {GAP}")


def _identity(scope: str, name: str, fingerprint: str, stamp: Stamp) -> str:
    parts = (name, fingerprint, OCCURRENCE)
    return event_id(scope, GAP, parts, stamp_occurrence(stamp.epoch, stamp.number))
