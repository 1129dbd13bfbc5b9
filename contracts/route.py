"""Reads a door's path: gateway, secret, instance. Pure; a trailing slash changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

PREFIX: Final = b"gateways"

EVOLUTION_EVENTS: Final = frozenset(
    {
        "application-startup",
        "call",
        "chats-delete",
        "chats-set",
        "chats-update",
        "chats-upsert",
        "connection-update",
        "contacts-set",
        "contacts-update",
        "contacts-upsert",
        "error",
        "group-participants-update",
        "group-update",
        "groups-update",
        "groups-upsert",
        "instance-create",
        "instance-delete",
        "labels-association",
        "labels-edit",
        "logout-instance",
        "messages-delete",
        "messages-edited",
        "messages-set",
        "messages-update",
        "messages-upsert",
        "messaging-history-set",
        "presence-update",
        "qrcode-updated",
        "remove-instance",
        "send-message",
        "send-message-update",
        "status-instance",
        "typebot-change-status",
        "typebot-start",
    }
)
"""The suffixes that Evolution's by-events webhooks put behind the URL."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a path leads inside one gateway."""

    instance: str | None
    token_ok: bool
    """A segment was one of the gateway's tokens."""
    understood: bool
    """False when segments are left over: a wrong secret, or a URL that was mistyped."""


def segments(raw_path: bytes) -> list[bytes]:
    """The path's segments, percent-decoded one by one, without empty ones."""
    parts = [segment for segment in raw_path.split(b"/") if segment]
    return [unquote_to_bytes(segment) for segment in parts] if b"%" in raw_path else parts


def place_in(rest: list[bytes], *, is_token: Callable[[bytes], bool], by_events: bool) -> Place:
    """What stands behind ``/gateways/{gateway}``: ``[secret] [instance] [event name]``, each optional."""
    token_ok = bool(rest) and is_token(rest[0])
    if token_ok:
        rest = rest[1:]
    if by_events and rest and rest[-1].decode("utf-8", "replace") in EVOLUTION_EVENTS:
        rest = rest[:-1]
    instance = rest[0].decode("utf-8", "replace") if rest else None
    return Place(instance=instance, token_ok=token_ok, understood=len(rest) <= 1)
