"""A store with fault points around another one: what it does there is up to the test that wires it in."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from outbox.store import Claiming


class FaultPoint(enum.Enum):
    BEFORE_COMMIT = "before commit"
    """Nothing of the call has been done."""
    BEFORE_ANSWER = "before answer"
    """The call has committed; nobody knows yet."""


Trip: TypeAlias = "Callable[[FaultPoint, str], None]"
"""Called with the point and the method's name: may raise, kill the process, or do nothing."""


class FaultyStore:
    """Any store, which calls ``trip`` before and after every call of the inner one but ``close``."""

    def __init__(self, inner: Claiming, trip: Trip) -> None:
        self._inner = inner
        self._trip = trip

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "close" or not inspect.iscoroutinefunction(found):
            return found

        async def between_faults(*values: Any, **named: Any) -> Any:
            self._trip(FaultPoint.BEFORE_COMMIT, name)
            result = await found(*values, **named)
            self._trip(FaultPoint.BEFORE_ANSWER, name)
            return result

        return between_faults
