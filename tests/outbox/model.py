"""What a store must hold, in the plainest words: the state machine compares every store with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from outbox.record import Guard, GuardMode, PutOutcome

Key: TypeAlias = tuple[str, bytes]


@dataclass
class Waiting:
    body: bytes
    due_s: float
    order: int
    attempts: int = 0


@dataclass
class Model:
    now_s: float = 0.0
    order: int = 0
    number: int = 0
    waiting: dict[Key, Waiting] = field(default_factory=dict)
    claimed: set[Key] = field(default_factory=set)
    seen: set[Key] = field(default_factory=set)
    dead: dict[Key, bytes] = field(default_factory=dict)
    last: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def put(self, key: Key, body: bytes, guard: Guard | None) -> PutOutcome:
        """By contract §4: known first, then suppression, then the row."""
        if key in self.waiting or key in self.seen or key in self.dead:
            return PutOutcome.DUPLICATE
        if guard is not None and self._is_old(guard):
            return PutOutcome.SUPPRESSED
        if guard is not None:
            self._remember(guard)
        is_conflict = key[0] in {id_ for id_, _ in (*self.waiting, *self.seen, *self.dead)}
        self.insert(key, body)
        return PutOutcome.CONFLICT if is_conflict else PutOutcome.STORED

    def insert(self, key: Key, body: bytes) -> None:
        self.order += 1
        self.waiting[key] = Waiting(body=body, due_s=self.now_s, order=self.order)

    def _is_old(self, guard: Guard) -> bool:
        kept = self.last.get(guard.key)
        if kept is None:
            return False
        if guard.mode is GuardMode.CLEAR:
            return not kept
        if guard.mode is GuardMode.TRANSITION:
            return kept == guard.members
        return all(kept.get(name) == value for name, value in guard.members.items())

    def _remember(self, guard: Guard) -> None:
        kept: Mapping[str, bytes] = self.last.pop(guard.key, {})
        if guard.mode is GuardMode.TRANSITION:
            self.last[guard.key] = dict(guard.members)
        elif guard.mode is GuardMode.SNAPSHOT:
            self.last[guard.key] = {**kept, **guard.members}
        else:
            self.last[guard.key] = {}

    def due(self) -> list[Key]:
        """What a claim without bounds returns, in its order."""
        free = [(w.due_s, w.order, key) for key, w in self.waiting.items() if key not in self.claimed]
        return [key for due_s, _, key in sorted(free) if due_s <= self.now_s]

    def deliver(self, key: Key) -> None:
        del self.waiting[key]
        self.claimed.discard(key)
        self.seen.add(key)

    def kill(self, key: Key) -> None:
        self.dead[key] = self.waiting.pop(key).body
        self.claimed.discard(key)
