"""Translates what the driver raises, once: an outage is StoreUnavailable, everything else a mistake."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import asyncpg

from outbox.store import StoreError, StoreUnavailable

# Connection, password (it may be about to be changed), resources, operator's doing, system, broken file; and
# two that a repetition heals: a transaction that lost against another one, a lock that was not free.
_OUTAGE_CLASSES: Final = frozenset({"08", "28", "40", "53", "55", "57", "58", "XX"})
# A primary that became a standby, a transaction that stood still or took too long, a database that is being
# restored under its name.
_OUTAGE_STATES: Final = frozenset({"25006", "25P03", "25P04", "3D000"})


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raises StoreUnavailable when it may work again later; StoreError when it never will.

    After StoreUnavailable of a call that changes something nobody knows whether it was done: its connection
    may have died during COMMIT. Settling again is safe, for the lease is gone when it was.
    """
    try:
        yield
    except asyncpg.PostgresError as error:
        state = error.sqlstate or ""
        if state[:2] in _OUTAGE_CLASSES or state in _OUTAGE_STATES:
            raise StoreUnavailable(f"postgres: SQLSTATE {state}") from error
        raise StoreError(f"postgres: {type(error).__name__}, SQLSTATE {state}") from error
    except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise StoreUnavailable(f"postgres: {type(error).__name__}") from error
