"""Tells a storm of equal connection events from news: ten pass, the rest become the last one and a count."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from contracts.scopes import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do with an event: first release what is held of its instance, then hold it or let it pass."""

    release: bool = False
    hold: bool = False


@dataclass(slots=True)
class _Run:
    """Equal events of one instance, newest last."""

    sameness: str
    seen: deque[tuple[float, str]]
    held: bool = False


@dataclass(slots=True, kw_only=True)
class StormGuard:
    """Remembers, for each instance, the last few equal connection events. A copy of one is no new event.

    What is forgotten at a restart costs a few rows more, never one less.
    """

    events_max: int
    window_s: float
    instances_max: int
    runs: OrderedDict[Source, _Run] = field(default_factory=OrderedDict)

    def advise(self, source: Source, sameness: str, identity: str, now_s: float) -> Advice:
        """Hold it when more than ``events_max`` equal ones came within ``window_s``."""
        run = self.runs.get(source)
        was_held = run is not None and run.held
        if run is None or run.sameness != sameness:
            run = self.runs[source] = _Run(sameness, deque(maxlen=self.events_max), was_held)
            while len(self.runs) > self.instances_max:
                self.runs.popitem(last=False)
        self.runs.move_to_end(source)
        if any(known == identity for _, known in run.seen):
            return Advice()
        full = len(run.seen) == self.events_max
        run.held = full and now_s - run.seen[0][0] <= self.window_s
        run.seen.append((now_s, identity))
        return Advice(release=was_held and not run.held, hold=run.held)

    def over(self, now_s: float) -> list[Source]:
        """Instances of which something is held and that have been quiet for a window; each is named once."""
        quiet = [
            source
            for source, run in self.runs.items()
            if run.held and now_s - run.seen[-1][0] > self.window_s
        ]
        for source in quiet:
            self.runs[source].held = False
        return quiet
