"""A real pgbouncer before a test's database, where one is installed: transaction mode, two connections."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import asyncpg

PGBOUNCER: Final = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
START_S_MAX: Final = 20.0


def _ini(dsn: str, port: int) -> str:
    parts = urlsplit(dsn)
    host = parse_qs(parts.query).get("host", [parts.hostname or "127.0.0.1"])[0]
    # It does not run as root, and the folder of a socket may be its owner's alone.
    owner = pwd.getpwuid(Path(host).stat().st_uid).pw_name if host.startswith("/") else "nobody"
    user = f"user = {owner}\n" if os.getuid() == 0 else ""
    return f"""
[databases]
* = host={host} port={parts.port or 5432} user={parts.username or "postgres"}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
{user}"""


@asynccontextmanager
async def pgbouncer(dsn: str) -> AsyncIterator[str]:
    """The DSN of the same database through the pooler."""
    assert PGBOUNCER is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="zlpb"))
    ini = folder / "pgbouncer.ini"
    ini.write_text(_ini(dsn, port))
    folder.chmod(0o755)
    process = await asyncio.create_subprocess_exec(
        PGBOUNCER, "-q", str(ini), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    pooled = f"postgresql://postgres@127.0.0.1:{port}{urlsplit(dsn).path}"
    try:
        await _until_it_answers(pooled, process)
        yield pooled
    finally:
        process.kill()
        await process.wait()
        shutil.rmtree(folder)


async def _until_it_answers(dsn: str, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(START_S_MAX):
        while True:
            assert process.returncode is None, "pgbouncer ended"
            try:
                await (await asyncpg.connect(dsn, statement_cache_size=0)).close()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(0.05)
            else:
                return
