"""Tells who is on the other end of a connection."""

from __future__ import annotations

import ipaddress
from typing import Final

from asgi.types import Scope

_THIS_MACHINE: Final = frozenset({"127.0.0.1", "::1"})
"""The usual ones, without parsing."""

_FORWARDED: Final = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"})
"""What a proxy adds: behind one on this machine, everybody's connection comes from here."""


def asks_from_here(scope: Scope) -> bool:
    """True for a request of this machine itself, also when others reach the door through a proxy on it."""
    return is_loopback(scope.get("client")) and not any(name in _FORWARDED for name, _ in scope["headers"])


def is_loopback(client: object) -> bool:
    """True for a peer on this machine: 127.0.0.0/8, ::1, or a unix socket (no address at all)."""
    if client is None:
        return True
    if not isinstance(client, tuple | list) or not client:
        return False
    host = str(client[0])
    if host in _THIS_MACHINE:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
