"""One line of a report: what was found, and what to do when it is not well."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report; ``next_step`` is empty when all is well."""

    what: str
    next_step: str = ""

    @property
    def is_well(self) -> bool:
        """True when nothing has to be done."""
        return not self.next_step
