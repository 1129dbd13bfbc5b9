"""The stores under one suite, and the clock that a test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outbox.clock import ManualClock
from outbox.memory import MemoryStore
from outbox.sqlite import open_sqlite
from outbox.store import Store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store
    opened = (
        MemoryStore(clock) if request.param == "memory" else await open_sqlite(tmp_path / "outbox", clock)
    )
    yield opened
    await opened.close()
