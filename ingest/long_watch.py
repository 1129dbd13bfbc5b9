"""The part of the watch that remembers weeks: silences against their own normal, channels that diverge."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg

from contracts.events import KINDS
from ingest import coverage, silence
from ingest import coverage_statements as statements
from ingest.config import IngestConfig
from ingest.silence import Ear, hours_before, is_over, quiet_ears, silent_at, weeks_of
from ingest.watch import Alert, Beat

DIVERGE_EVERY_S: Final = 300.0
HORIZONS: Final = (timedelta(days=1), timedelta(days=7))
"""How far a silence is judged ahead: a day at first, a week when it has lasted a day."""
_ALL_KINDS: Final = tuple(sorted(KINDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """When the silence of an ear is none of the usual ones; looked for up to a horizon."""

    begin: datetime
    horizon: timedelta
    silent_at: datetime | None

    def holds(self, ear: Ear, now: datetime) -> bool:
        """Whether nothing has to be looked up again."""
        is_last = self.horizon == HORIZONS[-1]
        return self.begin == ear.begin and (
            self.silent_at is not None or is_last or now <= ear.begin + self.horizon
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What one round found."""

    due: Sequence[Alert]
    speaking: Mapping[str, Beat]
    judged_divergence: bool

    def over(self, name: str, subject: str, raised_at: datetime) -> bool:
        """Whether an alert that is not due any more has ended."""
        if name == coverage.DIVERGE:
            return self.judged_divergence
        if name in (silence.SILENT, silence.DEAF):
            return is_over(name, subject, raised_at, self.speaking)
        return False


class LongWatch:
    """One for each process. What it remembers follows from the lake and the heartbeats alone."""

    def __init__(self, config: IngestConfig) -> None:
        self._config = config
        self._verdicts: dict[Ear, _Verdict] = {}
        self._diverge_at = 0.0

    async def look(
        self, connection: asyncpg.Connection[Any], beats: Sequence[Beat], now: datetime
    ) -> Findings:
        """One round, in the caller's transaction: bounded reads by short ranges of an index."""
        speaking = {beat.name: beat for beat in beats if beat.age_s <= self._config.silent_after_s}
        due = await self._silences(connection, list(speaking.values()), now)
        judges = asyncio.get_running_loop().time() >= self._diverge_at
        if judges:
            due += await coverage.diverging(connection)
            await coverage.forget(connection, days=self._config.channel_counts_days)
            self._diverge_at = asyncio.get_running_loop().time() + DIVERGE_EVERY_S
        return Findings(due=due, speaking=speaking, judged_divergence=judges)

    async def _silences(
        self, connection: asyncpg.Connection[Any], beats: Sequence[Beat], now: datetime
    ) -> list[Alert]:
        after_s = self._config.instance_silent_after_s
        ears = [ear for beat in beats for ear in quiet_ears(beat, now, after_s=after_s)]
        self._verdicts = {ear: self._verdicts[ear] for ear in ears if ear in self._verdicts}
        unknown = [ear for ear in ears if not self._is_known(ear, now)]
        unknown.sort(key=lambda ear: ear.begin)
        await self._judge(connection, unknown[: self._config.silences_per_round_max], now)
        silent = [ear for ear in ears if self._is_silent(ear, now)]
        whole = {ear.subject for ear in silent if ear.kind is None}
        return [
            Alert(
                name=ear.alert,
                subject=ear.subject,
                detail={"since": f"{ear.begin:%Y-%m-%d %H:%M} UTC"},
            )
            for ear in silent
            if ear.kind is None or silence.subject_of(*ear[:3], None) not in whole
        ]

    def _is_known(self, ear: Ear, now: datetime) -> bool:
        verdict = self._verdicts.get(ear)
        return verdict is not None and verdict.holds(ear, now)

    def _is_silent(self, ear: Ear, now: datetime) -> bool:
        verdict = self._verdicts.get(ear)
        return verdict is not None and verdict.silent_at is not None and verdict.silent_at <= now

    async def _judge(self, connection: asyncpg.Connection[Any], ears: Sequence[Ear], now: datetime) -> None:
        horizons = [next((h for h in HORIZONS if now <= ear.begin + h), HORIZONS[-1]) for ear in ears]
        firsts, counts = await self._history(connection, ears, horizons)
        for place, (ear, horizon) in enumerate(zip(ears, horizons, strict=True)):
            weeks = weeks_of(
                ear.begin,
                firsts.get(place),
                counts[place],
                number=self._config.silent_weeks,
                horizon=horizon,
            )
            at = silent_at(ear.begin, weeks, expected_min=self._config.silent_expected_min, horizon=horizon)
            self._verdicts[ear] = _Verdict(begin=ear.begin, horizon=horizon, silent_at=at)
            await asyncio.sleep(0)  # requests get their turn

    async def _history(
        self, connection: asyncpg.Connection[Any], ears: Sequence[Ear], horizons: Sequence[timedelta]
    ) -> tuple[dict[int, datetime], Mapping[int, Mapping[datetime, int]]]:
        """For each ear by its place: the hour of its first count ever, and the counts of the weeks before."""
        firsts: dict[int, datetime] = {}
        counts: defaultdict[int, defaultdict[datetime, int]] = defaultdict(lambda: defaultdict(int))
        if not ears:
            return firsts, counts
        asked = [
            (place, ear.gateway, ear.instance, kind)
            for place, ear in enumerate(ears)
            for kind in (_ALL_KINDS if ear.kind is None else (ear.kind,))
        ]
        for place, first in await connection.fetch(statements.FIRST_HOURS, *_columns(asked)):
            if first is not None:
                firsts[place] = min(first, firsts.get(place, first))
        ranges = [
            (*question, *hours_before(ears[question[0]].begin, back, horizons[question[0]]))
            for question in asked
            for back in range(1, self._config.silent_weeks + 1)
        ]
        rows = await connection.fetch(statements.COUNTS_OF_HOURS, *_columns(ranges))
        for place, hour, count in rows:
            counts[place][hour] += count
        return firsts, counts


def _columns(rows: Sequence[tuple[object, ...]]) -> Iterator[list[object]]:
    return map(list, zip(*rows, strict=True))
