"""One vocabulary for how far a message got, and for what a message without content stands for.

Statuses are WhatsApp's own names: ERROR, PENDING, SERVER_ACK, DELIVERY_ACK, READ, PLAYED. Stub numbers are
those of WAProto's ``WebMessageInfo.StubType``; ``stub_types.txt`` lists the names in order of number.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

Dialect: TypeAlias = Literal["baileys", "evolution", "waha", "cloud"]

STATUSES: Final = ("ERROR", "PENDING", "SERVER_ACK", "DELIVERY_ACK", "READ", "PLAYED")

_NUMBER_OF_ERROR: Final[Mapping[Dialect, int]] = {"baileys": 0, "evolution": 0, "waha": -1, "cloud": 0}
_CLOUD: Final = {"SENT": "SERVER_ACK", "DELIVERED": "DELIVERY_ACK", "FAILED": "ERROR"}
_SYNONYMS: Final[Mapping[Dialect, Mapping[str, str]]] = {
    "baileys": {},
    "evolution": _CLOUD,
    "waha": {"SERVER": "SERVER_ACK", "DEVICE": "DELIVERY_ACK"},
    "cloud": _CLOUD,
}
"""Evolution's WHATSAPP-BUSINESS integration passes Meta's own words on."""


def canonical_status(value: object, dialect: Dialect) -> str:
    """Return the one name of a status given as name or number; an unknown one in upper case as sent.

    Baileys and Evolution count from 0 (ERROR), WAHA from -1. What is neither text nor number gives "".
    """
    if isinstance(value, str):
        name = value.strip().upper()
        if not _is_digits(name):
            return _SYNONYMS[dialect].get(name, name)
        value = int(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return ""
    rank = value - _NUMBER_OF_ERROR[dialect]
    return STATUSES[rank] if 0 <= rank < len(STATUSES) else str(value)


def status_rank(name: str) -> int | None:
    """How far a canonical status is: 0 (ERROR) to 5 (PLAYED); None for a name that has no place there."""
    return STATUSES.index(name) if name in STATUSES else None


def stub_number(value: object) -> int | None:
    """Return the number of a stub type given as name, number or digits; None without one."""
    if isinstance(value, str):
        name = value.strip()
        if not _is_digits(name):
            return _numbers().get(name.upper())
        value = int(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


@functools.cache
def stub_names() -> tuple[str, ...]:
    """All stub types by number."""
    text = importlib.resources.files("contracts").joinpath("stub_types.txt").read_text("ascii")
    return tuple(text.split())


@functools.cache
def _numbers() -> Mapping[str, int]:
    return {name: number for number, name in enumerate(stub_names())}


def _is_digits(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 9
