"""Which account an instance's facts belong to: the scope of its first stored event, for good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Source: TypeAlias = tuple[str, str]
"""(gateway, native instance); the instance is "" where neither body nor path names one."""


def default_scope(source: Source) -> str:
    """What an instance that nobody mapped is stored under."""
    return f"{source[0]}/{source[1]}"


@dataclass(slots=True, kw_only=True)
class ScopeTable:
    """``mapped``: what the operator says now. ``kept``: what each instance's first event was stored under."""

    mapped: dict[Source, str] = field(default_factory=dict)
    kept: dict[Source, str] = field(default_factory=dict)

    def scope_of(self, source: Source) -> str:
        """The kept scope, else the mapped one, else the default."""
        kept = self.kept.get(source)
        return kept if kept is not None else self.wanted(source)

    def wanted(self, source: Source) -> str:
        """What the mapping alone would say."""
        return self.mapped.get(source) or default_scope(source)

    def moved(self) -> dict[Source, tuple[str, str]]:
        """Instances whose mapping now contradicts what they keep: source to (kept, wanted)."""
        return {
            source: (kept, wanted)
            for source, kept in self.kept.items()
            if (wanted := self.wanted(source)) != kept
        }


def as_rows(table: Mapping[Source, str]) -> list[tuple[str, str, str]]:
    """The mapping as JSON-ready rows, in a fixed order."""
    return sorted((gateway, instance, scope) for (gateway, instance), scope in table.items())


def from_rows(rows: Iterable[tuple[str, str, str]]) -> dict[Source, str]:
    """The reverse of ``as_rows``."""
    return {(gateway, instance): scope for gateway, instance, scope in rows}
