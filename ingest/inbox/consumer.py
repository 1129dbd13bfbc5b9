"""A consumer of the log: rules that share cursors, run in one transaction and are replayed together."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from contracts.inbox import Rule
from ingest.config import ConfigError

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """Rules in the order in which they are applied. Raises ConfigError for a name that nobody could type."""

    name: str
    rules: Sequence[Rule[Any]]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"consumer {self.name!r}: a name is a-z, 0-9 and _, at most 40 characters")

    @functools.cached_property
    def kinds(self) -> list[str] | None:
        """All kinds that a rule asks for; None when one asks for every event."""
        return _union([rule.kinds for rule in self.rules])

    @functools.cached_property
    def payload_kinds(self) -> list[str] | None:
        """The kinds whose payload is read."""
        return _union([rule.kinds for rule in self.rules if rule.reads_payload])

    def rules_for(self, kind: str | None) -> Sequence[tuple[int, Rule[Any]]]:
        """(place, rule) of those that ask for ``kind``."""
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = [
                (place, rule)
                for place, rule in enumerate(self.rules)
                if rule.kinds is None or kind in rule.kinds
            ]
        return found

    @functools.cached_property
    def _by_kind(self) -> dict[str | None, list[tuple[int, Rule[Any]]]]:
        return {}


def _union(asked: Sequence[frozenset[str] | None]) -> list[str] | None:
    if None in asked:
        return None
    return sorted(frozenset[str]().union(*(kinds for kinds in asked if kinds is not None)))
