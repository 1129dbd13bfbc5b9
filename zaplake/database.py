"""Which Postgres holds the lake: the one that is configured, or the one of the data folder."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import asyncpg

from zaplake.embedded import EmbeddedPostgres
from zaplake.settings import Settings
from zaplake.trouble import Trouble, UsageTrouble

RECOVERY_S_MAX: Final = 60.0
UNREADABLE_DSN: Final = (
    "the DSN cannot be read; in a password / # ? : and @ are written as %2F %23 %3F %3A and %40"
)
_HOST: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")


@contextlib.contextmanager
def lake_dsn(settings: Settings, *, create: bool = False) -> Iterator[str]:
    """The lake's DSN while the block runs; finds or starts the data folder's Postgres, or makes one."""
    if settings.database_url is not None:
        yield settings.database_url.reveal()
        return
    server = EmbeddedPostgres(settings.data_dir, create=create)
    try:
        yield server.dsn
    finally:
        server.close()


async def migrate(dsn: str) -> None:
    """Brings the schema up to date; waits for a Postgres that is still recovering. Raises Trouble."""
    from ingest.schema import upgrade  # SQLAlchemy and Alembic: a query needs neither

    deadline = time.monotonic() + RECOVERY_S_MAX
    while True:
        try:
            return await upgrade(dsn)
        except asyncpg.CannotConnectNowError as error:
            if time.monotonic() > deadline:
                raise Trouble(
                    f"Postgres is still starting: {error}", "look at its log, then try again"
                ) from error
            await asyncio.sleep(0.2)
        except asyncpg.InsufficientPrivilegeError as error:
            raise Trouble(
                f"Postgres refuses it: {error}", "use a role that may create the schema lake"
            ) from error
        except (
            OSError,
            TimeoutError,
            asyncpg.PostgresConnectionError,
            asyncpg.InvalidAuthorizationSpecificationError,
            asyncpg.InvalidCatalogNameError,
            asyncpg.InterfaceError,
            ValueError,
        ) as error:
            raise unreachable(error) from error


def unreachable(error: Exception) -> Trouble:
    """What is said when no connection can be made; never shows the password of the DSN."""
    if isinstance(error, TimeoutError):
        reason = "it did not answer"
    elif isinstance(error, ValueError) and not isinstance(error, asyncpg.InterfaceError):
        reason = UNREADABLE_DSN  # the message quotes a piece of it
    else:
        reason = str(error)
    return Trouble(
        f"cannot reach Postgres: {reason}",
        "check DATABASE_URL and that it runs; `zaplake doctor` tries each step",
    )


def required_dsn(settings: Settings) -> str:
    """The configured DSN. Raises UsageTrouble when there is none, or when none can be reached by it ever."""
    if settings.database_url is None:
        raise UsageTrouble(
            "no Postgres is configured",
            "set DATABASE_URL=postgresql://user:password@host/database, or run `zaplake up`",
        )
    dsn = settings.database_url.reveal()
    if not dsn.startswith(("postgresql://", "postgres://")):
        raise UsageTrouble(
            "database_url is no URL of a Postgres", "write it as postgresql://user:password@host/database"
        )
    hosts = urlsplit(dsn).netloc.rpartition("@")[2]
    if not all(_HOST.fullmatch(host) for host in hosts.split(",")):
        raise UsageTrouble(f"database_url: {UNREADABLE_DSN}", "repair DATABASE_URL")
    return dsn
