"""Runs one statement against the lake, in a transaction that cannot write, with a bounded answer."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
import msgspec

from zaplake.database import unreachable
from zaplake.trouble import Trouble, UsageTrouble

CONNECT_S_MAX: Final = 10.0
_SAME_TEXT: Final = ("json", "jsonb")
_NOT_OURS: Final = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
    asyncpg.InvalidSchemaNameError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Column names and at most as many rows as were asked for; ``cut`` when there were more.

    A json or jsonb value is a ``msgspec.Raw`` with the database's own text, so that no number is rounded.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    cut: bool


async def run(dsn: str, sql: str, *, rows_max: int) -> Answer:
    """One statement. Raises UsageTrouble for SQL that Postgres refuses, Trouble when it is out of reach."""
    if not sql.strip():
        raise UsageTrouble("there is no statement", 'give one: zaplake lake sql "select 1"')
    connection = await connect(dsn)
    try:
        for name in _SAME_TEXT:
            await connection.set_type_codec(
                name,
                schema="pg_catalog",
                encoder=str,
                decoder=lambda text: msgspec.Raw(text.encode()),
                format="text",
            )
        async with connection.transaction(readonly=True):
            statement = await connection.prepare(sql)
            cursor = await statement.cursor()
            rows = await cursor.fetch(rows_max + 1)
            columns = tuple(attribute.name for attribute in statement.get_attributes())
        return Answer(
            columns=columns, rows=[tuple(row.values()) for row in rows[:rows_max]], cut=len(rows) > rows_max
        )
    except asyncpg.ReadOnlySQLTransactionError as error:
        raise UsageTrouble(f"{error}", "`lake sql` only reads; to write, use psql on DATABASE_URL") from error
    except asyncpg.UndefinedTableError as error:
        raise UsageTrouble(
            f"{error}", "the tables are lake.*, see docs/lake.md; a new database needs `zaplake db upgrade`"
        ) from error
    except asyncpg.PostgresError as error:
        raise UsageTrouble(
            f"Postgres refuses it: {error}", "repair the statement; one statement at a time"
        ) from error
    except asyncpg.InterfaceError as error:
        raise UsageTrouble(f"{error}", "one statement that returns rows, without parameters") from error
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def lake(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A connection for what an operator asks of the lake, closed at the end. Raises Trouble.

    Also for what Postgres refuses inside the block, such as in a database without our tables.
    """
    connection = await connect(dsn)
    try:
        yield connection
    except _NOT_OURS as error:
        raise Trouble("the database has no lake or an older one", "run: zaplake db upgrade") from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise Trouble(f"Postgres did not do it: {error}", "`zaplake doctor` tries each step") from error
    finally:
        await connection.close()


async def connect(dsn: str) -> asyncpg.Connection:
    """A connection. Raises Trouble, which never shows the password of the DSN."""
    try:
        return await asyncpg.connect(dsn, timeout=CONNECT_S_MAX)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        raise unreachable(error) from error
