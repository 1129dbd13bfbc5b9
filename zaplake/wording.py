"""How counts are said."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """``1 record``, ``2 records``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
