"""The golden table: for each fixture the rows it must give, as written by hand in the TOML files here."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
FIXTURES: Final = HERE / "fixtures"

TABLES: Final = ("evolution", "baileys", "waha", "cloudapi", "recordings")
UNKNOWN_ALLOWED: Final[frozenset[str]] = frozenset()
"""The written list of fixtures ("<table>/<name>") that may end as kind ``unknown``."""

_FAMILY: Final = {"recordings": "evolution"}
_PATH_INSTANCE: Final = {"baileys": "loja-sp", "waha": "default"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the lake: fixtures share it when they show the same ``label`` (unique over all tables)."""

    kind: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one fixture gives."""

    table: str
    """The TOML file it stands in: "evolution", "baileys", "waha", "cloudapi" or "recordings"."""
    name: str
    """Path of the fixture below ``fixtures/<table>``, with forward slashes."""
    family: str
    """The gateway family whose reader reads it, also the name of the gateway without configuration."""
    path_instance: str | None
    """The instance that the door's path must name because the body has none; None where the body tells it."""
    rows: tuple[Row, ...]
    counted: tuple[str, ...]
    """Reasons of what makes no row ("empty", "signal", "qr"), in the order of the body."""

    @property
    def body(self) -> bytes:
        """The body to post, byte for byte."""
        return (FIXTURES / self.table / self.name).read_bytes()

    @property
    def door(self) -> str:
        """The path below ``/gateways/`` to post it to."""
        return self.family if self.path_instance is None else f"{self.family}/{self.path_instance}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its rows, in the order of the body."""
        return tuple(row.kind for row in self.rows)


def load_table(*tables: str) -> tuple[Entry, ...]:
    """Read the golden table, or only the named TOML files, in the order of the files."""
    return tuple(
        _entry(table, name, value)
        for table in tables or TABLES
        for name, value in tomllib.loads((HERE / f"{table}.toml").read_text("utf-8")).items()
    )


def load_secrets(table: str) -> tuple[str, ...]:
    """Strings in the fixtures of a table that may be stored or logged nowhere."""
    return tuple(tomllib.loads((HERE / "secrets.toml").read_text("utf-8"))[table])


def _entry(table: str, name: str, value: list[str] | dict[str, list[str]]) -> Entry:
    given = {"rows": value} if isinstance(value, list) else value
    assert given.keys() <= {"rows", "counted"}, f"{table}.toml: {name}"
    family = _FAMILY.get(table, table)
    return Entry(
        table=table,
        name=name,
        family=family,
        path_instance=_PATH_INSTANCE.get(family),
        rows=tuple(Row(kind=row.split(" ", 1)[0], label=f"{table}: {row}") for row in given.get("rows", [])),
        counted=tuple(given.get("counted", [])),
    )
