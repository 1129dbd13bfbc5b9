"""Statements on the store's own connection, in its own thread."""

from __future__ import annotations

from outbox.sqlite import SqliteStore
from outbox.sqlite_engine import SqliteEngine


async def ask(store: SqliteStore, statement: str) -> list[tuple[object, ...]]:
    """Run one statement outside of any transaction."""

    def work(engine: SqliteEngine) -> list[tuple[object, ...]]:
        return engine.connection.execute(statement).fetchall()

    return await (await store._thread.submit(work, bare=True))
