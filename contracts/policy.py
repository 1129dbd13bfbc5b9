"""Which facts become records: pure, and every refusal has a name to be counted under."""

from __future__ import annotations

from typing import Final

from contracts.configured import CaptureFilter, CapturePolicy, ChatClass
from contracts.events import Event
from contracts.jids import jid_kind

_CLASSES: Final[dict[str, ChatClass]] = {
    "group": "group",
    "broadcast": "broadcast",
    "newsletter": "newsletter",
}


def refusal(policy: CapturePolicy, event: Event, source: str) -> str | None:
    """Why the event makes no record (``signal``, ``denied``), or None. ``source`` is gateway/instance."""
    if event.kind == "presence" and not policy.presence:
        return "signal"
    if not _inside(policy.allow, event, source) or _named(policy.deny, event, source):
        return "denied"
    return None


def _chat_class(event: Event) -> ChatClass | None:
    if event.chat_jid is None:
        return None
    return _CLASSES.get(jid_kind(event.chat_jid), "direct")


def _inside(allow: CaptureFilter, event: Event, source: str) -> bool:
    return (
        (not allow.kinds or event.kind in allow.kinds)
        and (not allow.chat_classes or _chat_class(event) in {None, *allow.chat_classes})
        and (not allow.instances or source in allow.instances)
    )


def _named(deny: CaptureFilter, event: Event, source: str) -> bool:
    return (
        event.kind in deny.kinds
        or (bool(deny.chat_classes) and _chat_class(event) in deny.chat_classes)
        or source in deny.instances
    )
