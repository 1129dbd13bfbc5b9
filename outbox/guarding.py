"""Suppression as a pure rule: what a guarded subject keeps, and whether a record tells anything new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from outbox.record import Guard, GuardMode
from outbox.store import MEMBERS_MAX

Members: TypeAlias = Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """``keep`` is what the subject's members become when the record is put; None forgets the subject.

    No members at all is the mark that a clear leaves.
    """

    suppressed: bool
    keep: Members | None = None


def rule(guard: Guard, kept: Members | None) -> Ruling:
    """Judge one record against what its subject kept (None: nothing is known of it).

    A snapshot that repeats kept values in each member it carries tells nothing; members it does not
    carry stay as they were. A transition tells nothing when it equals the last one, a clear when the
    subject was cleared and nothing came since. Too many members: passes, and the subject is forgotten,
    since a part would suppress wrongly.
    """
    match guard.mode:
        case GuardMode.CLEAR:
            suppressed = kept is not None and not kept
            merged = {}
        case GuardMode.TRANSITION:
            suppressed = kept is not None and kept == guard.members
            merged = dict(guard.members)
        case GuardMode.SNAPSHOT:
            suppressed = kept is not None and all(
                kept.get(name) == hash_ for name, hash_ in guard.members.items()
            )
            merged = {**(kept or {}), **guard.members}
    if suppressed:
        return Ruling(suppressed=True, keep=kept)
    return Ruling(suppressed=False, keep=merged if len(merged) <= MEMBERS_MAX else None)
