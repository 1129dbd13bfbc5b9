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
class Blob:
    size: int
    order: int
    due_s: float | None
    """None: delivered or dead."""
    attempts: int = 0
    is_dead: bool = False


@dataclass
class Model:
    now_s: float = 0.0
    order: int = 0
    number: int = 0
    waiting: dict[Key, Waiting] = field(default_factory=dict)
    claimed: set[Key] = field(default_factory=set)
    unknown: set[Key] = field(default_factory=set)
    """Waiting for an answer, not for a try."""
    seen: set[Key] = field(default_factory=set)
    dead: dict[Key, bytes] = field(default_factory=dict)
    last: dict[str, dict[str, bytes]] = field(default_factory=dict)
    blobs: dict[str, Blob] = field(default_factory=dict)
    claimed_blobs: set[str] = field(default_factory=set)
    refs: dict[Key, dict[str, bool]] = field(default_factory=dict)
    """The blobs of waiting and dead records, and whether they are waited for."""

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

    def free(self, *, unknown: bool = False) -> list[tuple[float, int, Key]]:
        """What nobody holds: to be tried, or to be asked about; as (due, order, key) in a claim's order."""
        return sorted(
            (waiting.due_s, waiting.order, key)
            for key, waiting in self.waiting.items()
            if self.is_free(key) and (key in self.unknown) is unknown
        )

    def due(self, *, unknown: bool = False) -> list[Key]:
        """What a claim without bounds returns, in its order."""
        return [key for due_s, _, key in self.free(unknown=unknown) if due_s <= self.now_s]

    def is_free(self, key: Key) -> bool:
        return key not in self.claimed and not any(self.refs.get(key, {}).values())

    def deliver(self, key: Key) -> None:
        del self.waiting[key]
        self.claimed.discard(key)
        self.unknown.discard(key)
        self.seen.add(key)
        self.unrefer(key)

    def refer(self, key: Key, sha256: str, size: int) -> None:
        self.order += 1
        self.blobs.setdefault(sha256, Blob(size=size, order=self.order, due_s=self.now_s))
        self.refs.setdefault(key, {})[sha256] = True
        self.again(sha256)

    def again(self, sha256: str) -> None:
        blob = self.blobs[sha256]
        if blob.due_s is None:
            blob.due_s, blob.attempts, blob.is_dead = self.now_s, 0, False

    def requeue(self, key: Key) -> None:
        self.insert(key, self.dead.pop(key))
        for sha256 in self.refs.get(key, {}):
            self.refs[key][sha256] = True
            self.again(sha256)

    def unrefer(self, key: Key) -> None:
        self.refs.pop(key, None)
        self.forget_unneeded()

    def forget_unneeded(self) -> None:
        needed = {sha256 for refs in self.refs.values() for sha256 in refs}
        self.blobs = {
            sha256: blob
            for sha256, blob in self.blobs.items()
            if blob.due_s is not None or blob.is_dead or sha256 in needed
        }

    def due_blobs(self) -> list[str]:
        due = [
            (blob.due_s, blob.order, sha256)
            for sha256, blob in self.blobs.items()
            if blob.due_s is not None and blob.due_s <= self.now_s and sha256 not in self.claimed_blobs
        ]
        return [sha256 for _, _, sha256 in sorted(due)]

    def end_blob(self, sha256: str, *, is_dead: bool) -> list[Key]:
        """Returns the records that lost it."""
        self.claimed_blobs.discard(sha256)
        blob = self.blobs[sha256]
        blob.due_s, blob.is_dead = None, is_dead
        waiting = [key for key, refs in self.refs.items() if refs.get(sha256)]
        for key in waiting:
            self.refs[key][sha256] = False
            if is_dead:
                del self.refs[key][sha256]
            if not any(self.refs[key].values()):
                self.waiting[key].due_s = self.now_s
        self.forget_unneeded()
        return waiting if is_dead else []

    def kill(self, key: Key) -> None:
        self.dead[key] = self.waiting.pop(key).body
        self.claimed.discard(key)
        self.unknown.discard(key)
