"""The disk under the outbox is full for a while: the gateway gets 503, what waits is shipped, all heals."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.support.orders import ROOM
from tests.support.small_disk import NoMount, fill, small_disk, without_mount
from tests.system.conftest import Reckon
from tests.system.stage import Stage, playing

PAGES_MORE = 40
MIB = 64
"""Of the small disk; 16 of them are the outbox's reserve."""
ROUNDS_LONG = 20

Full: TypeAlias = "Callable[[Stage], AbstractAsyncContextManager[None]]"
"""No room is left while the block runs."""


@contextlib.asynccontextmanager
async def file_is_full(stage: Stage) -> AsyncIterator[None]:
    """SQLite is told that its file may hardly grow."""
    await stage.collector.obey(ROOM, PAGES_MORE)
    yield
    await stage.collector.obey(ROOM, 0)


@contextlib.asynccontextmanager
async def disk_is_full(stage: Stage) -> AsyncIterator[None]:
    """Something else takes the last byte of the file system."""
    hog = fill(stage.outbox.parent)
    yield
    await stage.has_alert("outbox.disk")
    hog.unlink()


async def shipping_goes_on(stage: Stage) -> None:
    """Something is delivered, or all of it was."""
    before = (await stage.told("anything", lambda _document: True))["shipper"]["delivered"]

    def goes_on(document: dict[str, Any]) -> bool:
        return bool(document["shipper"]["delivered"] > before or document["outbox"]["waiting"] == 0)

    await stage.told("shipping goes on", goes_on)


async def fill_often(stage: Stage, rounds: int, full: Full) -> None:
    for _ in range(rounds):
        await stage.in_full_swing()
        async with full(stage):
            await stage.refused_more()
            await shipping_goes_on(stage)
        await stage.acknowledged_more()
        await stage.told("the reserve is back", lambda document: document["outbox"]["has_reserve"])
    await stage.alert_is_over("outbox.full")
    assert set(stage.driver.statuses) == {200, 503}


async def test_a_file_that_may_not_grow_loses_and_doubles_nothing(
    dsn: str, tmp_path: Path, seed: int, reckon: Reckon
) -> None:
    async with playing(dsn, tmp_path, seed=seed) as stage:
        await fill_often(stage, 2, file_is_full)
    await reckon("disk full (max_page_count)", dsn=dsn, ledger=stage.driver.ledger, rounds=2)


@pytest.mark.chaos
@pytest.mark.timeout(600)
async def test_a_disk_that_is_full_twenty_times_loses_and_doubles_nothing(
    dsn: str, tmp_path: Path, seed: int, reckon: Reckon
) -> None:
    """On a small file system of its own; where none can be mounted, by SQLite's limit."""
    with contextlib.ExitStack() as mounted:
        try:
            outbox, how = mounted.enter_context(small_disk(tmp_path, MIB)), disk_is_full
        except NoMount as error:
            without_mount(error)
            outbox, how = tmp_path, file_is_full
        async with playing(dsn, tmp_path, seed=seed, outbox=outbox) as stage:
            await fill_often(stage, ROUNDS_LONG, how)
    name = "disk full (tmpfs)" if how is disk_is_full else "disk full (max_page_count, NO TMPFS HERE)"
    await reckon(name, dsn=dsn, ledger=stage.driver.ledger, rounds=ROUNDS_LONG)
