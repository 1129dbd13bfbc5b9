"""Tells who is on the other end of a connection."""

from __future__ import annotations

import ipaddress
from typing import Final

_THIS_MACHINE: Final = frozenset({"127.0.0.1", "::1"})
"""The usual ones, without parsing."""


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
