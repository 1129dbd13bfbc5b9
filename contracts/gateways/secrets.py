"""Finds secrets of the account in values whose shape no reader knows: unknown events, what an engine said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from contracts.events import Path
from contracts.gateways.content import message_secrets, protocol_secrets
from contracts.gateways.shape import member_at

_STEPS_MAX: Final = 16
_VALUES_MAX: Final = 200_000
"""Values looked at: more than any engine says in one event."""
_NAMES: Final = frozenset(
    (
        "api_key",
        "apikey",
        "appstatesynckeyshare",
        "authorization",
        "creds",
        "creds.update",
        "creds_update",
        "pairingcode",
        "qr",
        "qrcode",
    )
)
_TYPEBOT: Final[tuple[Path, ...]] = (
    ("variables", "apiKey"),
    ("prefilledVariables", "apiKey"),
    ("session", "parameters", "apiKey"),
    ("parameters", "apiKey"),
)
_PROTOCOL: Final = frozenset(("historySyncNotification",))


def loose_secrets(value: object) -> tuple[Path, ...]:
    """Return where a value of unknown shape holds keys of the account or of the gateway.

    Below a member ``message`` only the exact places of a WhatsApp message count: never what people wrote.
    One with a ``key`` is an element around a message.
    """
    found: list[Path] = []
    waiting: list[tuple[object, Path]] = [(value, ())]
    seen = 0
    while waiting and seen < _VALUES_MAX:
        here, path = waiting.pop()
        seen += 1
        if isinstance(here, Mapping):
            found += ((*path, *secret) for secret in protocol_secrets(here) if secret[0] in _PROTOCOL)
            for name, member in _members(here):
                if name.lower() in _NAMES:
                    found.append((*path, name))
                elif name.lower() == "message" and isinstance(member, dict) and "key" not in member:
                    found += ((*path, name, *secret) for secret in message_secrets(member))
                elif len(path) < _STEPS_MAX:
                    waiting.append((member, (*path, name)))
        elif isinstance(here, list) and len(path) < _STEPS_MAX:
            waiting += ((item, (*path, place)) for place, item in enumerate(here) if _holds(item))
    return tuple(found)


def _members(holder: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the members that can be a secret or hold one."""
    for name, member in holder.items():
        if _holds(member) or (member is not None and name.lower() in _NAMES):
            yield name, member


def _holds(value: object) -> bool:
    return isinstance(value, dict | list) and bool(value)


def typebot_secrets(element: object) -> tuple[Path, ...]:
    """Return where Evolution tells the bot, and whoever listens, its own global key."""
    return tuple(path for path in _TYPEBOT if member_at(element, path) is not None)
