"""What Postgres raises, as the engine's callers hear it: an outage is waited for, a mistake is not."""

from __future__ import annotations

import asyncpg
import pytest

from outbox.postgres.errors import translated
from outbox.store import StoreError, StoreUnavailable


async def refuse(dsn: str, sqlstate: str) -> None:
    """Lets the server raise that state."""
    connection = await asyncpg.connect(dsn)
    try:
        with translated():
            await connection.execute(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}'; END $$")
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "sqlstate",
    [
        "08006",
        "25006",
        "25P03",
        "25P04",
        "28000",
        "28P01",
        "3D000",
        "40001",
        "40P01",
        "53100",
        "57P01",
        "58030",
    ],
)
async def test_what_may_work_again_is_an_outage(dsn: str, sqlstate: str) -> None:
    with pytest.raises(StoreUnavailable, match=sqlstate):
        await refuse(dsn, sqlstate)


@pytest.mark.parametrize("sqlstate", ["22003", "23505", "25001", "42P01"])
async def test_what_never_will_is_a_mistake(dsn: str, sqlstate: str) -> None:
    with pytest.raises(StoreError, match=sqlstate) as caught:
        await refuse(dsn, sqlstate)
    assert not isinstance(caught.value, StoreUnavailable)
