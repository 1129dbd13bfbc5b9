"""Reads pages of metrics, and docs/metrics.md, the way a test asks about them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias

from prometheus_client.parser import text_string_to_metric_families

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
_LINE = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", re.MULTILINE)

Family: TypeAlias = tuple[str, str, frozenset[str]]
"""(name, type, labels)"""


def value(page: str, name: str, **labels: str) -> float:
    """The sum of the samples of that name which carry these labels; 0 when there is none."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def families(page: str) -> set[Family]:
    """What the page holds; a counter's name with its ``_total``, as it is queried."""
    return {
        (
            f"{family.name}_total" if family.type == "counter" else family.name,
            family.type,
            frozenset(label for sample in family.samples for label in sample.labels) - {"le"},
        )
        for family in text_string_to_metric_families(page)
    }


def documented(prefix: str) -> set[Family]:
    """The rows of docs/metrics.md."""
    return {
        (name, kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in _LINE.findall(DOCS.read_text(encoding="utf-8"))
        if name.startswith(prefix)
    }
