"""Tells a storm of equal connection events from news: ten pass, the rest become the last one and a count."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from collector.scopes import Source


@dataclass(slots=True)
class _Run:
    """Equal events of one instance, newest last."""

    sameness: str
    seen: deque[tuple[float, str]]
    holding: bool = False


@dataclass(slots=True, kw_only=True)
class StormGuard:
    """Remembers, for each instance, the last few equal connection events. A copy of one is no new event.

    What is forgotten at a restart costs a few rows more, never one less.
    """

    events_max: int
    window_s: float
    instances_max: int
    runs: OrderedDict[Source, _Run] = field(default_factory=OrderedDict)

    def holds(self, source: Source, sameness: str, identity: str, now_s: float) -> bool:
        """True when this event is to be held: more than ``events_max`` equal ones within ``window_s``."""
        run = self.runs.get(source)
        if run is None or run.sameness != sameness:
            run = _Run(sameness, deque(maxlen=self.events_max))
            self.runs[source] = run
            while len(self.runs) > self.instances_max:
                self.runs.popitem(last=False)
        self.runs.move_to_end(source)
        if any(known == identity for _, known in run.seen):
            return False
        full = len(run.seen) == self.events_max
        run.holding = full and now_s - run.seen[0][0] <= self.window_s
        run.seen.append((now_s, identity))
        return run.holding

    def changes(self, source: Source, sameness: str) -> bool:
        """True when the instance is being held and this event is another one: what is held goes first."""
        run = self.runs.get(source)
        return run is not None and run.holding and run.sameness != sameness

    def over(self, now_s: float) -> list[Source]:
        """Instances that were held and have been quiet for a window; each is named once."""
        quiet = [
            source
            for source, run in self.runs.items()
            if run.holding and now_s - run.seen[-1][0] > self.window_s
        ]
        for source in quiet:
            self.runs[source].holding = False
        return quiet

    def any_holding(self) -> bool:
        """True while some instance is being held."""
        return any(run.holding for run in self.runs.values())
