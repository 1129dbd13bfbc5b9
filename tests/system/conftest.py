"""What the tests of the whole system share: the reckoning after a disaster."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import asyncpg
import pytest

from tests.support.score import Score
from tests.system import posts
from tests.system.ledger import Ledger, Wrong, check


class Reckon(Protocol):
    def __call__(
        self,
        what: str,
        *,
        dsn: str,
        ledger: Ledger,
        rounds: int,
        mark_of: Callable[[Any], str] = posts.mark_of,
    ) -> Awaitable[None]:
        """Every acknowledged event must be in the lake exactly once and intact, every other at most once."""
        ...


@pytest.fixture
def reckon(score: Callable[[Score], None], seed: int) -> Reckon:
    """Compares the ledger with the lake and takes down the test's line of the table."""

    async def compare(
        what: str,
        *,
        dsn: str,
        ledger: Ledger,
        rounds: int,
        mark_of: Callable[[Any], str] = posts.mark_of,
    ) -> None:
        connection = await asyncpg.connect(dsn)
        try:
            rows = await connection.fetch("SELECT payload::text FROM lake.whatsapp_event_logs")
            ids = await connection.fetchval("SELECT count(*) FROM lake.event_ids")
        finally:
            await connection.close()
        payloads = [json.loads(row[0]) for row in rows]
        violations = check(ledger, ((mark_of(payload), payload) for payload in payloads))
        wrongs = Counter(violation.wrong for violation in violations)
        score(
            Score(
                disaster=what,
                rounds=rounds,
                sent=len(ledger.sent),
                acknowledged=len(ledger.acknowledged),
                kept=len(rows),
                lost=wrongs[Wrong.LOST],
                doubled=wrongs[Wrong.DOUBLED],
                altered=wrongs[Wrong.ALTERED] + wrongs[Wrong.INVENTED],
                seed=seed,
            )
        )
        assert violations == []
        assert ids == len(rows), "an id without its event"

    return compare
