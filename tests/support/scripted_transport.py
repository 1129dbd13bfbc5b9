"""The other side as a script: answers requests as the test says and keeps what came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from outbox.record import Record
from outbox.transport import Answer, RecordReceipt

Script: TypeAlias = "Callable[[Sequence[Record]], Answer | None]"
"""None means: stored, each of them."""


def stored(records: Sequence[Record], *, status: int = 200) -> Answer:
    """The usual good answer, with a receipt for each."""
    return Answer(status=status, receipts={record.id: RecordReceipt(status="stored") for record in records})


@dataclass
class ScriptedTransport:
    """``Transport``. Requests whose ids hold one of ``hanging`` wait until ``let_go``."""

    script: Script = lambda _records: None
    requests: list[list[str]] = field(default_factory=list)
    """Ids of every request, in the order they came."""
    delivered: list[str] = field(default_factory=list)
    """Ids that got a receipt of stored, also repeatedly."""
    hanging: set[str] = field(default_factory=set)
    in_flight: int = 0
    in_flight_most: int = 0
    _gone: asyncio.Event = field(default_factory=asyncio.Event)

    def let_go(self) -> None:
        self.hanging.clear()
        self._gone.set()
        self._gone = asyncio.Event()

    async def send(self, records: Sequence[Record]) -> Answer:
        names = [record.id for record in records]
        self.requests.append(names)
        self.in_flight += 1
        self.in_flight_most = max(self.in_flight_most, self.in_flight)
        try:
            await asyncio.sleep(0)
            while self.hanging.intersection(names):
                await self._gone.wait()
            answer = self.script(records) or stored(records)
        finally:
            self.in_flight -= 1
        self.delivered += [
            name for name, receipt in answer.receipts.items() if receipt.status in ("stored", "duplicate")
        ]
        return answer
