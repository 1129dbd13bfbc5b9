"""Which Postgres holds the lake: the one that is configured, or the one of the data folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from zaplake.embedded import EmbeddedPostgres
from zaplake.settings import Settings
from zaplake.trouble import Trouble


@contextlib.contextmanager
def lake_dsn(settings: Settings) -> Iterator[str]:
    """The lake's DSN while the block runs; finds or starts the data folder's Postgres, makes none."""
    if settings.database_url is not None:
        yield settings.database_url.reveal()
        return
    server = EmbeddedPostgres(settings.data_dir, create=False)
    try:
        yield server.dsn
    finally:
        server.close()


def required_dsn(settings: Settings) -> str:
    """The configured DSN. Raises Trouble when there is none."""
    if settings.database_url is None:
        raise Trouble(
            "no Postgres is configured",
            "set DATABASE_URL=postgresql://user:password@host/database, or run `zaplake up`",
        )
    return settings.database_url.reveal()
