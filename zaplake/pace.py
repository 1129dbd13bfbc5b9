"""Which dead letters an operator means, and how fast they go back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zaplake.trouble import UsageTrouble

STEP_S: Final = 1.0
"""At a pace above one a second, this often a step is made."""
PER_S_MAX: Final = 100_000.0
_PACE: Final = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|m))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Ids that go back together, and the seconds until the next step."""

    ids: Sequence[str]
    wait_s: float


def records_per_s(pace: str) -> float:
    """``20/s``, ``20`` or ``30/m``. Raises UsageTrouble."""
    match = _PACE.fullmatch(pace.strip())
    per_s = float(match[1]) / (60.0 if match[2] == "m" else 1.0) if match else 0.0
    if not 0 < per_s <= PER_S_MAX:
        raise UsageTrouble(f"--pace {pace!r} is no pace", "write it as 20/s or 30/m, above 0")
    return per_s


def steps(ids: Sequence[str], per_s: float) -> Iterator[Step]:
    """All ids once and in order; at any moment at most one step ahead of the pace."""
    size = max(1, int(per_s * STEP_S))
    for start in range(0, len(ids), size):
        chosen = ids[start : start + size]
        yield Step(ids=chosen, wait_s=len(chosen) / per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Texts that a letter must hold, in any case; an empty one is held by all."""

    reason: str = ""
    label: str = ""

    @property
    def is_everything(self) -> bool:
        """True when no text was given."""
        return not (self.reason or self.label)

    def takes(self, letter: Mapping[str, Any]) -> bool:
        """Whether the letter is meant; its status counts as part of its reason."""
        reason = f"{letter['status'] or ''} {letter['reason']}".casefold()
        return self.reason.casefold() in reason and self.label.casefold() in letter["label"].casefold()
