"""The stores under one suite, and the clock that a test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outbox.clock import ManualClock
from outbox.memory import MemoryStore
from outbox.metering import MeteredStore
from outbox.sqlite import open_sqlite
from tests.outbox.records import marked_lost


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
async def store(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[MeteredStore]:
    opened: MeteredStore
    if request.param == "memory":
        opened = MemoryStore(clock, folder=tmp_path, mark_lost=marked_lost)
    else:
        opened = await open_sqlite(tmp_path / "outbox", clock, mark_lost=marked_lost)
    yield opened
    await opened.close()
