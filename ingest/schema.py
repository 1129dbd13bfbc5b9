"""Brings a database to the schema that this release needs: migrations, then partitions made ahead."""

from __future__ import annotations

import contextlib
from typing import Any

import asyncpg
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from ingest.partitions import CatchAllMissingError, make_ahead


async def upgrade(dsn: str, revision: str = "head") -> None:
    """Run the missing steps in one transaction; safe when several processes start at once.

    Months that cannot be made now are left to the watch of ``ingest.desk``: the catch-all takes their rows.
    """

    async def connect() -> asyncpg.Connection[Any]:
        return await asyncpg.connect(dsn)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            await connection.run_sync(_run, revision)
            await connection.commit()
    finally:
        await engine.dispose()
    direct = await asyncpg.connect(dsn)
    try:
        with contextlib.suppress(asyncpg.LockNotAvailableError, CatchAllMissingError):
            await make_ahead(direct)
    finally:
        await direct.close()


def _run(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", "migrations:")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
