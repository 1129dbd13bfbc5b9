"""The embedded Postgres where the happy path of ``up`` does not go."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from pathlib import Path

import asyncpg
import psutil
import pytest

from zaplake.embedded import SOCKET_PATH_BYTES_MAX, EmbeddedPostgres
from zaplake.trouble import Trouble


def ask(dsn: str, sql: str) -> object:
    async def asked() -> object:
        connection = await asyncpg.connect(dsn)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(asked())


def test_a_path_too_long_for_a_socket_works_closed_to_strangers_and_durable(folder: Path) -> None:
    deep = folder / ("d" * SOCKET_PATH_BYTES_MAX)
    first = EmbeddedPostgres(deep)
    second = EmbeddedPostgres(deep)
    try:
        assert first.dsn == second.dsn
        socket_dir = Path(first.dsn.partition("host=")[2])
        assert socket_dir != first.pgdata
        if os.geteuid() == 0:
            assert stat.S_IMODE(socket_dir.stat().st_mode) == 0o700
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert ask(first.dsn, f"show {name}") == "on"
        first.close()
        assert ask(second.dsn, "select 1") == 1, "another holder keeps it"
    finally:
        first.close()
        second.close()
    assert not (first.pgdata / "postmaster.pid").exists()


def test_a_stale_pid_file_of_a_stranger_does_not_stop_the_start(folder: Path) -> None:
    held = EmbeddedPostgres(folder)
    lines = (held.pgdata / "postmaster.pid").read_text().splitlines()
    held.close()
    stranger = psutil.Process(os.getpid())
    lines[0] = str(stranger.pid)
    (held.pgdata / "postmaster.pid").write_text("\n".join(lines) + "\n")
    shutil.chown(held.pgdata / "postmaster.pid", held.pgdata.owner())
    again = EmbeddedPostgres(folder)
    try:
        assert ask(again.dsn, "select 1") == 1
        assert stranger.is_running()
    finally:
        again.close()


def test_what_is_impossible_is_said(folder: Path) -> None:
    with pytest.raises(Trouble, match="there is no lake"):
        EmbeddedPostgres(folder / "new", create=False)
    assert not (folder / "new").exists()
    with pytest.raises(Trouble, match="letters, digits"):
        EmbeddedPostgres(folder / "with space")
    (folder / "file").write_text("")
    with pytest.raises(Trouble, match="cannot write to the data folder"):
        EmbeddedPostgres(folder / "file")


def test_a_broken_folder_is_said_with_postgres_own_words(folder: Path) -> None:
    held = EmbeddedPostgres(folder)
    held.close()
    (held.pgdata / "PG_VERSION").write_text("9\n")
    with pytest.raises(Trouble, match=r"did not start: .*FATAL"):
        EmbeddedPostgres(folder)
