"""Takes a body from any door and returns when every fact in it is durable, counted or refused by rule."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Final

import structlog

from asgi.tracing import span, tracer_of
from collector.alerts import Alerts
from collector.config import CollectorConfig
from collector.documents import asked_again, read_table
from collector.instances import Instances
from collector.metrics import CollectorMetrics
from collector.shedding import Shedder
from collector.silence import silence_of
from collector.spool import Spool, Spooled
from collector.storm import StormGuard
from collector.tally import HOURS_KEPT, Tally, hour_of
from collector.translate import Captured, Translation
from collector.translating import Body, Translator
from contracts.configured import GatewayConfig
from contracts.heartbeat import LIVE_CHANNELS
from contracts.scopes import ScopeTable, Source, as_rows
from contracts.translation import Arrival, Counts, Rules
from outbox.record import NewRecord, PutOutcome, PutResult
from outbox.store import Store

META_SCOPES: Final = "scopes"
META_ACCOUNTS: Final = "accounts"
ENDS: Final = frozenset({"instance.delete", "instance.remove"})
STORM_S_MAX: Final = 600.0
"""A storm that lasts gives a row at least this often."""

_log = structlog.get_logger("collector.capture")


class Capture:
    """The way from a body to the store. One for each process; every door shares it."""

    def __init__(
        self,
        *,
        store: Store,
        config: CollectorConfig,
        alerts: Alerts,
        now: Callable[[], datetime],
        on_put: Callable[[], None],
    ) -> None:
        """``on_put`` is called after each commit that may have brought something to ship."""
        limits = config.limits
        self._store, self._config, self._alerts = store, config, alerts
        self._now, self._on_put = now, on_put
        self._keeping = asyncio.Lock()
        self._has_held = False
        self._moved: set[Source] = set()
        self._storms = StormGuard(
            events_max=limits.storm_events_max,
            window_s=limits.storm_window_s,
            instances_max=limits.instances_max,
        )
        self._gateways = {gateway.name: gateway for gateway in config.gateways}
        self.shedder = Shedder(store, config.capture.shed, now)
        self.scopes = ScopeTable(mapped=dict(config.accounts))
        self.rules = Rules(policy=config.capture, scope_of=self.scopes.scope_of, secrets=config.cut_values)
        self.spool = Spool(config)
        self.translator = Translator(limits=limits, rules=self.rules, spool=self.spool)
        self.tally = Tally(rows_max=limits.tally_rows_max)
        self.metrics = CollectorMetrics()
        self._tracer = tracer_of("zaplake.collector")
        self._put_records = store.put if self._tracer is None else self._traced_put
        self.instances = Instances(store, instances_max=limits.instances_max)
        self.silence = silence_of(config)

    async def open(self) -> None:
        """Reads what the store keeps: scopes and states of known instances, the account table last served.

        Whoever calls it has the store's lock: media of bodies that were never answered are removed.
        """
        await asyncio.to_thread(self.spool.empty)
        accounts = await read_table(self._store, META_ACCOUNTS, self._alerts)
        self.scopes.mapped = {**accounts, **self._config.accounts}
        self.scopes.kept = await read_table(self._store, META_SCOPES, self._alerts)
        await self.instances.load(self._alerts)
        self._tell_moved()
        while await asked_again(self._store.release_held):
            pass

    def close(self) -> None:
        """Ends the threads; running translations are waited for by their callers."""
        self.translator.close()

    def gateway(self, name: str) -> GatewayConfig | None:
        """The configured gateway of that name."""
        return self._gateways.get(name)

    async def take(self, arrival: Arrival, spooled: Spooled | None = None) -> Counter[str]:
        """One body of a live door. Durable at return; the counts say what became of its facts.

        ``spooled`` has what was cut out of it while it was read, and is closed by whoever opened it. Raises
        BodyTooLarge, and BudgetExhausted, where too much has to stand in the body as text.
        """
        with ExitStack() as spools:
            translation = await self._translate(arrival, spools, spooled)
            if translation.captured:
                await self._put([(await self._without_storm(translation), translation.counted)])
        return self._count(arrival, translation)

    async def take_each(self, arrivals: Sequence[Arrival]) -> list[Counter[str]]:
        """Bodies of a live door, in one transaction. Durable at return; what became of each one's facts."""
        with ExitStack() as spools:
            translations = [await self._translate(arrival, spools) for arrival in arrivals]
            await self._put([(await self._without_storm(each), each.counted) for each in translations])
        return [self._count(*pair) for pair in zip(arrivals, translations, strict=True)]

    async def take_all(self, arrivals: Sequence[Arrival]) -> Counter[str]:
        """Bodies of a file, in one transaction and without storm collapse. Durable at return."""
        with ExitStack() as spools:
            translations = [await self._translate(arrival, spools) for arrival in arrivals]
            await self._put([(translation.captured, translation.counted) for translation in translations])
        total: Counter[str] = Counter()
        for arrival, translation in zip(arrivals, translations, strict=True):
            total.update(self._count(arrival, translation))
        return total

    async def release_storms(self) -> None:
        """Puts the last event of each storm that is over, or lasts too long. Call it every few seconds."""
        now = self._now()
        for source in self._storms.over(now.timestamp()):
            await self._release(source)
        if self._has_held and await self._store.release_held(before=now - timedelta(seconds=STORM_S_MAX)):
            self._on_put()
        if await self.shedder.release():
            self._on_put()

    async def apply_accounts(self, table: dict[Source, str]) -> None:
        """Takes the backend's account table; what the own configuration says stays. Kept in the store."""
        mapped = {**table, **self._config.accounts}
        if mapped != self.scopes.mapped:
            await self._store.set_meta(META_ACCOUNTS, json.dumps(as_rows(table)).encode())
            self.scopes.mapped = mapped
            self._tell_moved()

    def prune_counts(self) -> None:
        """Forgets counts of hours long gone."""
        self.tally.prune(hour_of(self._now() - timedelta(hours=HOURS_KEPT)))

    async def _translate(
        self, arrival: Arrival, spools: ExitStack, spooled: Spooled | None = None
    ) -> Translation:
        """The records of the body; ``spools`` closes the files of what had to be cut out of it here."""
        if spooled is None:
            body = await self.translator.cut(arrival, spools)
        else:
            body = Body(arrival=arrival, spooled=spooled)
        translation = await self.translator.translate(body)
        while not await self._has_lasting_scopes(translation):
            translation = await self.translator.translate(body)
        return translation

    async def _has_lasting_scopes(self, translation: Translation) -> bool:
        """Makes scopes of new instances durable; False when one had another meanwhile."""
        for captured in translation.captured:
            if captured.source not in self.scopes.kept:
                await self._keep(captured.source, captured.scope)
                if self.scopes.scope_of(captured.source) != captured.scope:
                    return False
        return True

    async def _keep(self, source: Source, scope: str) -> None:
        """Makes the instance's scope durable before its first event is."""
        async with self._keeping:
            if source in self.scopes.kept:
                return
            if len(self.scopes.kept) >= self._config.limits.instances_max:
                self._alerts.raise_("instances.too_many", source[0], fades=True)
                return
            rows = as_rows({**self.scopes.kept, source: scope})
            await self._store.set_meta(META_SCOPES, json.dumps(rows).encode())
            self.scopes.kept[source] = scope
        if self._is_unknown(source):
            self._alerts.raise_(
                "instance.unknown", "/".join(source), "stored under its default scope", fades=True
            )

    def _is_unknown(self, source: Source) -> bool:
        """Only where somebody said which instances there are can one be unknown."""
        name, instance = source
        gateway = self._gateways.get(name)
        expected = gateway.instances if gateway is not None else ()
        is_told = bool(expected) or any(owner == name for owner, _ in self._config.accounts)
        return is_told and instance not in expected and source not in self.scopes.mapped

    async def _without_storm(self, translation: Translation) -> list[Captured]:
        """What is to be put; the rest is held by the store, and counted."""
        wanted: list[Captured] = []
        for captured in translation.captured:
            if self.shedder.sheds(captured.kind):
                await self.shedder.shed(captured)
                translation.counted[captured.source]["shed"] += 1
            elif captured.sameness is None or not await self._held(captured):
                wanted.append(captured)
            else:
                translation.counted[captured.source]["collapsed"] += 1
        return wanted

    async def _held(self, captured: Captured) -> bool:
        source, same, identity = captured.source, captured.sameness, captured.record.id
        if same is None or not isinstance(identity, str):
            return False
        advice = self._storms.advise(source, same, identity, self._now().timestamp())
        if advice.release:
            await self._release(source)
        if advice.hold:
            await self._store.hold(json.dumps(source), captured.record)
            self._has_held = True
        return advice.hold

    async def _release(self, source: Source) -> None:
        for released in await self._store.release_held(key=json.dumps(source)):
            self._on_put()
            _log.info("storm.over", gateway=source[0], instance=source[1], events=released.count)

    async def _put(self, groups: Sequence[tuple[Sequence[Captured], Counts]]) -> None:
        records = [captured.record for group, _ in groups for captured in group]
        if not records:
            return
        started_s = time.perf_counter()
        outcomes = [result.outcome for result in await self._put_records(records)]
        self.metrics.commit_s.observe(time.perf_counter() - started_s)
        if PutOutcome.STORED in outcomes or PutOutcome.CONFLICT in outcomes:
            self._on_put()
        remaining = iter(outcomes)
        for group, counts in groups:
            for captured in group:
                counts[captured.source][next(remaining).value] += 1

    async def _traced_put(self, records: Sequence[NewRecord]) -> list[PutResult]:
        with span(self._tracer, "outbox.put", attributes={"records": len(records)}):
            return await self._store.put(records)

    def _count(self, arrival: Arrival, translation: Translation) -> Counter[str]:
        """Counts for each instance what became of its events; returns the sum over the body."""
        now, channel = arrival.captured_at, arrival.channel
        hour = hour_of(now)
        if not translation.counted:
            translation.counted[translation.source]["empty"] += 1
        for (gateway, instance), counts in translation.counted.items():
            self.tally.add(hour=hour, gateway=gateway, instance=instance, channel=channel, counts=counts)
            self.metrics.count(channel, gateway, instance, counts)
        is_live = channel in LIVE_CHANNELS
        if translation.captured:
            self.silence.heard(translation.source, channel, now)
        if channel != "refill":  # its history says nothing of how it is
            self.instances.saw(translation.source, now)
        for captured in translation.captured:
            if captured.state is not None or captured.source != translation.source:
                seen = self.instances.saw(captured.source, now)
                if captured.state is not None and is_live:
                    seen.tell(captured.state, captured.stamp, now)
        if is_live:
            self._hear(translation, now)
        first, *others = translation.counted.values()
        return sum(others, first) if others else first

    def _hear(self, translation: Translation, now: datetime) -> None:
        """Remembers what came when, of each instance; a deleted one is forgotten."""
        heard: dict[Source, list[str]] = {}
        for captured in translation.captured:
            heard.setdefault(captured.source, []).append(captured.kind)
        for source, kind in translation.refused:
            heard.setdefault(source, []).append(kind)
        for source, kinds in heard.items():
            self.instances.saw(source, now).hear(kinds, now)
            if not ENDS.isdisjoint(kinds):
                self.instances.forget(source)

    def _tell_moved(self) -> None:
        moved = self.scopes.moved()
        for source in self._moved - moved.keys():
            self._alerts.resolve("scope.changed", "/".join(source))
        self._moved = set(moved)
        for source, (kept, wanted) in moved.items():
            detail = f"stays in {kept}, where its first event went; the mapping says {wanted}"
            self._alerts.raise_("scope.changed", "/".join(source), detail)
