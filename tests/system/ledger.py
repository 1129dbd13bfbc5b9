"""What the driver knows to be acknowledged, and the checker that compares it with the lake.

The system under test never sees either.
"""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


class Wrong(enum.Enum):
    LOST = "acknowledged, but not in the lake"
    DOUBLED = "more than once in the lake"
    ALTERED = "in the lake with another payload"
    INVENTED = "in the lake, but never sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    mark: str
    wrong: Wrong


@dataclass(slots=True)
class Ledger:
    """Every event that was sent, by its mark (the message's own id), and which of them were answered 2xx."""

    sent: dict[str, str] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)

    def send(self, mark: str, payload: object) -> None:
        assert mark not in self.sent, "a mark names one event"
        self.sent[mark] = _text(payload)

    def acknowledge(self, mark: str) -> None:
        assert mark in self.sent
        self.acknowledged.add(mark)


def check(ledger: Ledger, rows: Iterable[tuple[str, object]]) -> list[Violation]:
    """Compare with the lake's rows, each a mark and its payload.

    Acknowledged events must be there exactly once and intact; the others at most once and intact.
    """
    found: Counter[str] = Counter()
    violations: list[Violation] = []
    for mark, payload in rows:
        found[mark] += 1
        if mark not in ledger.sent:
            violations.append(Violation(mark=mark, wrong=Wrong.INVENTED))
        elif _text(payload) != ledger.sent[mark]:
            violations.append(Violation(mark=mark, wrong=Wrong.ALTERED))
    violations += [Violation(mark=mark, wrong=Wrong.DOUBLED) for mark, times in found.items() if times > 1]
    lost = sorted(ledger.acknowledged - found.keys())
    return violations + [Violation(mark=mark, wrong=Wrong.LOST) for mark in lost]


def _text(payload: object) -> str:
    """Text, because Python says that True, 1 and 1.0 are equal."""
    return json.dumps(payload, sort_keys=True)
