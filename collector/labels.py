"""The label of a record: its instance and kind as one text, for lists, logs and the meter. Pure."""

from __future__ import annotations

from contracts.scopes import Source


def label_of(source: Source, kind: str) -> str:
    """The label; ``parts_of`` reads it."""
    gateway, instance = source
    return f"{gateway}/{instance} {kind}"


def parts_of(label: str) -> tuple[Source, str]:
    """Instance and kind. No gateway holds a slash and no kind a space."""
    source, _, kind = label.rpartition(" ")
    gateway, _, instance = source.partition("/")
    return (gateway, instance), kind
