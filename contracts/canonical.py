"""One form for all the ways gateways write the same value, for hashes only (contract §5, version 1).

The lists of integer, byte, enum and set-like fields and of what is volatile in each kind are data:
``canonical_v1.toml``. Another language can recompute everything here; the vectors are published.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Mapping
from typing import Final

from contracts.binary import field_bytes, object_bytes
from contracts.canonical_data import ANY_ITEM, Rules, Steps, rules
from contracts.compact import sorted_json
from contracts.cuttext import CutText, TextNeeded
from contracts.jids import bare_jid
from contracts.jsontext import BigNumber
from contracts.times import MILLISECONDS_FROM, as_integer

MEMBER_HASH_BYTES: Final = 16
NUMBER_KEY: Final = "$number"
DEEP_KEY: Final = "$deep"
BYTES_PREFIX: Final = "sha256:"

_NOWHERE: Final = Steps()
_LONG_MEMBERS: Final = frozenset(("low", "high", "unsigned"))
_EMPTY: Final[tuple[object, ...]] = (None, "", [], {})


def canonical(kind: str, element: object) -> object:
    """Return the canonical form of an element of this kind: JSON values of bounded depth, never an error
    for what was sent. Raises TextNeeded when a text that was cut out is content.
    """
    of_kind = rules(kind)
    return _value(element, "", "", of_kind.paths, of_kind, 0)


def canonical_json(value: object) -> bytes:
    """Return the bytes that are hashed: members in code point order, no spaces, UTF-8."""
    return sorted_json(value)


def content_hash(kind: str, element: object) -> str:
    """Return the hex sha256 of the canonical form."""
    return hashlib.sha256(canonical_json(canonical(kind, element))).hexdigest()


def member_hashes(kind: str, element: object) -> dict[str, bytes]:
    """Return a 16-byte hash of every member that the element carries; under "" when it is no object.

    A member sent as null, "", [] or {} counts as null: a chat that is unmuted or a description that is taken
    away says so only by that. What is dropped for another reason has no hash.
    """
    form = canonical(kind, element)
    members: dict[str, object] = form if isinstance(form, dict) else {"": form}
    if isinstance(element, Mapping) and isinstance(form, dict):
        of_kind = rules(kind)
        sent = (name for name in element if name not in of_kind.paths.dropped | of_kind.names)
        members = dict.fromkeys(unicodedata.normalize("NFC", name) for name in sent) | members
    return {name: _short_hash(value) for name, value in members.items()}


def _short_hash(value: object) -> bytes:
    return hashlib.sha256(canonical_json(value)).digest()[:MEMBER_HASH_BYTES]


def _value(value: object, parent: str, name: str, steps: Steps, of_kind: Rules, depth: int) -> object:
    """``name`` is the member that holds the value (an item: its array's), ``parent`` the member above."""
    if isinstance(value, Mapping):
        return _object(value, name, steps, of_kind, depth)
    if isinstance(value, list | tuple):
        return _array(list(value), parent, name, steps, of_kind, depth)
    if isinstance(value, str) and not isinstance(value, BigNumber):
        return _text(value, parent, name, of_kind)
    scalar = _scalar(value)
    if isinstance(scalar, int) and not isinstance(scalar, bool):
        return _integer(scalar, parent, name, of_kind)
    return scalar


def _object(value: Mapping[str, object], name: str, steps: Steps, of_kind: Rules, depth: int) -> object:
    if depth >= of_kind.depth_max:
        return {DEEP_KEY: _deep_hash(value)}
    data = object_bytes(value)
    if data is not None:
        return _bytes(data)
    if value.keys() <= _LONG_MEMBERS:
        number = as_integer(value)
        if number is not None:
            return _integer(number, "", name, of_kind)
    form: dict[str, object] = {}
    for member in sorted(value):
        if member in steps.dropped or member in of_kind.names or (name, member) in of_kind.pairs:
            continue
        below = steps.below.get(member, _NOWHERE)
        item = _value(value[member], name, member, below, of_kind, depth + 1)
        if item not in _EMPTY:
            form[unicodedata.normalize("NFC", member)] = item
    return form


def _array(value: list[object], parent: str, name: str, steps: Steps, of_kind: Rules, depth: int) -> object:
    if depth >= of_kind.depth_max:
        return {DEEP_KEY: _deep_hash(value)}
    if value and name in of_kind.byte_fields:
        data = field_bytes(value)
        if data is not None:
            return _bytes(data)
    below = steps.below.get(ANY_ITEM, _NOWHERE)
    items = [_value(item, parent, name, below, of_kind, depth + 1) for item in value]
    if name in of_kind.set_fields:
        items.sort(key=lambda item: (_own_id(item), canonical_json(item)))
    return items


def _text(value: str, parent: str, name: str, of_kind: Rules) -> object:
    if isinstance(value, CutText):
        if name in of_kind.byte_fields:
            return BYTES_PREFIX + value.sha256
        raise TextNeeded
    if name in of_kind.byte_fields:
        data = field_bytes(value)
        if data is not None:
            return _bytes(data)
    if name in of_kind.integer_fields:
        number = as_integer(value)
        if number is not None:
            return _integer(number, parent, name, of_kind)
    if name.endswith(of_kind.link_suffixes):
        value = value.partition("?")[0]
    return unicodedata.normalize("NFC", value)


def _integer(value: int, parent: str, name: str, of_kind: Rules) -> object:
    names = of_kind.enums.get(f"{parent}.{name}") or of_kind.enums.get(name)
    if names is not None:
        return names.get(value, value)
    return value // 1000 if name in of_kind.second_fields and value > MILLISECONDS_FROM else value


def _bytes(data: bytes) -> str:
    return BYTES_PREFIX + hashlib.sha256(data).hexdigest() if data else ""


def _own_id(item: object) -> str:
    own = item.get("id", item.get("jid", "")) if isinstance(item, dict) else item
    return bare_jid(own) if isinstance(own, str) else ""


def _scalar(value: object) -> object:
    """Return a value without members as JSON can write it."""
    if isinstance(value, BigNumber):
        return {NUMBER_KEY: str(value)}
    if not isinstance(value, float):
        return value
    if value.is_integer():
        return int(value)
    if math.isfinite(value):
        return value
    return {NUMBER_KEY: "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}


def _deep_hash(value: object) -> str:
    """Hash the sorted compact JSON of what is below the depth limit, written without recursion."""
    digest = hashlib.sha256()
    todo: list[object] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, bytes):
            digest.update(item)
        elif isinstance(item, Mapping):
            pieces: list[object] = []
            for member in sorted(item):
                pieces += (b"," if pieces else b"", canonical_json(member) + b":", item[member])
            todo += (b"}", *reversed(pieces), b"{")
        elif isinstance(item, list | tuple):
            pieces = [piece for member in item for piece in (b",", member)][1:]
            todo += (b"]", *reversed(pieces), b"[")
        else:
            if isinstance(item, CutText):
                raise TextNeeded
            digest.update(canonical_json(_scalar(item)))
    return digest.hexdigest()
