"""Documents that the store keeps for the collector: what is damaged there is told and begins anew."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from contracts.scopes import Source, from_rows
from outbox.store import Store, StoreUnavailable

if TYPE_CHECKING:
    from collector.alerts import Alerts

T = TypeVar("T")
Row: TypeAlias = tuple[str, str, str]

UNREADABLE: Final = (ValueError, RecursionError)
"""What json and msgspec raise of bytes that are no document of its type."""
_TEXT: Final = rb'\s*"(?:[^"\\]|\\.)*"\s*'
_ROW: Final = re.compile(rb"\[" + rb",".join([_TEXT] * 3) + rb"\]", re.DOTALL)


async def asked_again(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer at the start, also of a store that finds its file damaged then: it is salvaged by now."""
    try:
        return await ask()
    except StoreUnavailable:
        return await ask()


async def read_document(store: Store, key: str, type_: type[T], alerts: Alerts) -> T | None:
    """The document; None when there is none or it cannot be read."""
    kept = await asked_again(lambda: store.get_meta(key))
    if kept is None:
        return None
    try:
        return msgspec.convert(json.loads(kept), type_)
    except UNREADABLE:
        alerts.raise_("outbox.corrupt", key, "this document cannot be read and begins anew")
        return None


async def read_table(store: Store, key: str, alerts: Alerts) -> dict[Source, str]:
    """Scopes by instance. Of a damaged table the rows that can be read: another scope is another identity."""
    kept = await asked_again(lambda: store.get_meta(key))
    if kept is None:
        return {}
    try:
        return from_rows(msgspec.convert(json.loads(kept), list[Row]))
    except UNREADABLE:
        rows = _readable(kept)
        detail = f"the scopes of {len(rows)} instances could be read; the others take what the mapping says"
        alerts.raise_("outbox.corrupt", key, detail)
        return from_rows(rows)


def _readable(table: bytes) -> list[Row]:
    rows: list[Row] = []
    for found in _ROW.finditer(table):
        try:
            rows.append(msgspec.convert(json.loads(found.group()), Row))
        except UNREADABLE:
            continue
    return rows
