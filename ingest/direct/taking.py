"""From an admitted body to its commit: facts, scopes, rows, and what became of each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from contracts.configured import SECRET_CHARS_MIN
from contracts.scopes import Source
from contracts.translation import Arrival, Rules, Translation
from ingest.config import IngestConfig
from ingest.direct.books import ScopeBook
from ingest.direct.config import DirectConfig
from ingest.direct.facts import Fact, read_facts, read_rows, scopes_of, told
from ingest.direct.gate import Admitted
from ingest.doors import ON_LOOP_BYTES_MAX, Doors
from ingest.metrics import IngestMetrics
from ingest.problems import FOREIGN_INSTANCE, REFUSED, ProblemError
from ingest.row import Refusal
from ingest.writer import Writer

_Result = TypeVar("_Result")


class Taker:
    """Takes bodies of gateways. One for each process."""

    def __init__(
        self,
        config: IngestConfig,
        direct: DirectConfig,
        *,
        writer: Writer,
        doors: Doors,
        scopes: ScopeBook,
        metrics: IngestMetrics,
    ) -> None:
        self._direct, self._writer, self._scopes, self._metrics = direct, writer, scopes, metrics
        self._doors, self._rows_max = doors, config.batch_lines_max
        self._threads = asyncio.Semaphore(config.direct_threads_max)

    async def take(self, arrival: Arrival, admitted: Admitted) -> Mapping[str, int]:
        """What became of the facts: all are committed, duplicates, or make no row by rule.

        Raises ProblemError for a body that cannot be taken, UnavailableError when nothing is promised.
        """
        translation = await self._translated(arrival, admitted.token)
        if admitted.instances and any(
            fact.source[1] not in admitted.instances for fact in translation.captured
        ):
            raise ProblemError(FOREIGN_INSTANCE)
        counts = Counter(told(translation))
        rows = await self._in_turn(arrival, lambda: list(read_rows(translation)))
        self._doors.limit(f"gateway:{arrival.gateway.name}", len(rows))
        refusal: Refusal | None = None
        for start in range(0, len(rows), self._rows_max):
            part = rows[start : start + self._rows_max]
            size = sum(len(fact.body) for fact, _ in part)
            for fate in await self._writer.write([row for _, row in part], size):
                if isinstance(fate, Refusal):
                    refusal = fate
                counts["refused" if isinstance(fate, Refusal) else fate.value] += 1
        self._metrics.direct(arrival.gateway.name, counts)
        if refusal is not None:
            raise ProblemError(REFUSED, refusal.detail)
        return counts

    async def _translated(self, arrival: Arrival, token: str) -> Translation[Fact]:
        """The facts under the scopes that their instances keep."""
        translation = await self._read(arrival, token, self._scopes.scope_of)
        given = scopes_of(translation)
        kept = await self._scopes.settle(given)
        return translation if kept == given else await self._read(arrival, token, kept.__getitem__)

    async def _read(
        self, arrival: Arrival, token: str, scope_of: Callable[[Source], str]
    ) -> Translation[Fact]:
        secrets = (*self._direct.secrets, token) if len(token) >= SECRET_CHARS_MIN else self._direct.secrets
        rules = Rules(policy=self._direct.capture, scope_of=scope_of, secrets=secrets)
        return await self._in_turn(arrival, lambda: read_facts(arrival, rules))

    async def _in_turn(self, arrival: Arrival, work: Callable[[], _Result]) -> _Result:
        """A heavy body is worked at in a thread, a few at a time."""
        if len(arrival.raw) <= ON_LOOP_BYTES_MAX:
            return work()
        async with self._threads:
            return await asyncio.to_thread(work)
