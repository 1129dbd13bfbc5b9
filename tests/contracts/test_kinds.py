"""The kinds that code knows are the kinds that the lake's page lists."""

from __future__ import annotations

import re
from pathlib import Path

from contracts.events import KINDS

LAKE_PAGE = Path(__file__).parents[2] / "docs" / "lake.md"


def test_the_lakes_page_lists_every_kind() -> None:
    section = LAKE_PAGE.read_text(encoding="utf-8").split("## Kinds")[1].split("## ")[0]
    listed: set[str] = set()
    for text in re.findall(r"`([^`]+)`", section.replace("`capture.presence`", "")):
        stem, _, ends = text.rpartition(".")
        listed |= {f"{stem}.{end}" for end in ends.split("|")} if "|" in text else {text}
    assert listed == KINDS
