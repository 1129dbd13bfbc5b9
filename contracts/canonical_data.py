"""The closed lists of canonical JSON version 1, read once from ``canonical_v1.toml``."""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from contracts.status import stub_names

ANY_ITEM: Final = "*"
ANYWHERE: Final = "**"


@dataclass(slots=True)
class Steps:
    """Dropped paths as a tree: what is dropped here, and below which members more is dropped."""

    dropped: set[str] = field(default_factory=set)
    below: dict[str, Steps] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one kind drops, and what every kind has in common."""

    paths: Steps
    names: frozenset[str]
    """Dropped at any depth."""
    pairs: frozenset[tuple[str, str]]
    """(member, its member) dropped at any depth."""
    integer_fields: frozenset[str]
    second_fields: frozenset[str]
    byte_fields: frozenset[str]
    set_fields: frozenset[str]
    link_suffixes: tuple[str, ...]
    """None in a kind whose links are content."""
    enums: Mapping[str, Mapping[int, str]]
    """By ``field`` or ``member.field``: the name of every number."""
    depth_max: int


@functools.cache
def rules(kind: str) -> Rules:
    """Return the rules of a kind; a kind without a list of its own drops only secrets."""
    data = _data()
    dropped = [*data["secret"], *data["volatile"].get(kind, ())]
    paths = Steps()
    names: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for path in dropped:
        match path.split("."):
            case [str(first), name] if first == ANYWHERE:
                names.add(name)
            case [str(first), member, name] if first == ANYWHERE:
                pairs.add((member, name))
            case [*steps, name]:
                here = paths
                for step in steps:
                    here = here.below.setdefault(step, Steps())
                here.dropped.add(name)
    return Rules(
        paths=paths,
        names=frozenset(names),
        pairs=frozenset(pairs),
        integer_fields=frozenset(data["integer_fields"]),
        second_fields=frozenset(data["second_fields"]),
        byte_fields=frozenset(data["byte_fields"]),
        set_fields=frozenset(data["set_fields"]),
        link_suffixes=tuple(data["link_suffixes"]) if kind in data["link_kinds"] else (),
        enums=_enums(),
        depth_max=data["depth_max"],
    )


@functools.cache
def _data() -> dict[str, Any]:
    text = importlib.resources.files("contracts").joinpath("canonical_v1.toml").read_text("utf-8")
    return tomllib.loads(text)


@functools.cache
def _enums() -> dict[str, dict[int, str]]:
    tables = {
        name: {number: text for text, number in table.items()} for name, table in _data()["enums"].items()
    }
    tables["messageStubType"] = dict(enumerate(stub_names()))
    return tables
