"""JSON pointers (RFC 6901) that say where a body was changed: few and short, whatever the body looks like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

POINTERS_MAX: Final = 100
"""More changed places than these are not listed; they are changed all the same."""
POINTER_CHARS_MAX: Final = 500
STEP_CHARS_MAX: Final = 100


def pointer(steps: Iterable[str | int]) -> str:
    """Return the pointer of a place; a long name shows its beginning, a long pointer its beginning too."""
    text = "".join("/" + _escaped(str(step)[:STEP_CHARS_MAX]) for step in steps)
    return text if len(text) <= POINTER_CHARS_MAX else text[:POINTER_CHARS_MAX] + "…"


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
