"""The folder and the file of the SQLite store: private, locked by one process, asserted durable."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from outbox import sqlite_blob_statements as blob_sql
from outbox import sqlite_statements as sql
from outbox.fsync import sync_folder
from outbox.sqlite_damage import Damaged, as_us
from outbox.sqlite_version import OLDEST, described
from outbox.sqlite_whole import assert_whole
from outbox.store import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreUnavailable

FILE_NAME: Final = "outbox.sqlite3"
FRESH_NAME: Final = f"{FILE_NAME}.new"
"""A file in the making. It gets its name when it is whole: an empty file of that name is a damaged one."""
BESIDE: Final = ("", "-wal", "-shm", "-journal")
"""The endings of what belongs to one file, itself first."""
LOCK_NAME: Final = "lock"
DUE_AHEAD_MAX_S: Final = 900
"""No honest schedule lies further ahead (the back-off is capped at 5 minutes)."""
STATEMENTS_CACHED: Final = 128

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_CONSTRAINT_DATATYPE: Final = 3091
_CONTRADICTED: Final = frozenset(
    {
        sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
        sqlite3.SQLITE_CONSTRAINT_ROWID,
        sqlite3.SQLITE_CONSTRAINT_UNIQUE,
        sqlite3.SQLITE_CONSTRAINT_NOTNULL,
        _CONSTRAINT_DATATYPE,
    }
)
"""Every statement that inserts a key has looked for it or says what to do when it is there, and what is bound
has its column's type: a table and its index do not agree, or a row that is changed was never sound."""
_UNDECODABLE: Final = "Could not decode to UTF-8"
_NO_ROOM: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
_UNWRITTEN: Final = frozenset(
    {sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE}
)
"""What SQLite makes of a quota that is used up, among other failures."""
_FOR_NOW: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_AUTH,
    }
)


class WriteFailed(StoreUnavailable):
    """The disk did not take a write. It may be the room that is missing, or the disk."""


def translate(error: sqlite3.Error) -> Exception:
    """What an SQLite error means for the caller; a programmer's error stays what it is."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if code is None and str(error).startswith(_UNDECODABLE):
        return Damaged("the outbox file is damaged: a text is none")  # the error's words have the text
    if primary in _DAMAGED or code in _CONTRADICTED:
        return Damaged(f"the outbox file is damaged: {error}")
    if code in _NO_ROOM:
        return StoreFull(f"the disk is full: {error}")
    if code in _UNWRITTEN:
        return WriteFailed(f"the outbox cannot be written for now: {error}")
    if primary in _FOR_NOW:
        return StoreUnavailable(f"the outbox cannot be written for now: {error}")
    return error


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Errors of SQLite and of the operating system leave this block as StoreErrors."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error) from error
    except UnicodeDecodeError as error:
        # SQLite quotes a damaged schema in its error, which Python cannot read.
        raise Damaged("the outbox file is damaged: a name is none") from error
    except OSError as error:
        raise StoreUnavailable(f"the outbox folder: {error.strerror or error}") from error


def lock_folder(folder: Path) -> int:
    """Make the folder (0700) and lock it for this process; returns the lock's descriptor.

    Raises StoreBusy when another process holds it: two writers would each believe in leases of their own.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StoreBusy(f"{folder} is in use by another process (it holds {LOCK_NAME})") from error
    return descriptor


def connect(folder: Path, now: datetime) -> sqlite3.Connection:
    """Open or create the file. Never reads the history: its cost does not grow with the rows.

    Its name and the folder's are synced every time: who renamed it may have died before that.
    """
    if sqlite3.sqlite_version_info < OLDEST:
        oldest = ".".join(str(part) for part in OLDEST)
        raise StoreError(f"{described(sqlite3.sqlite_version_info)} is too old: {oldest} or newer is needed")
    path = folder / FILE_NAME
    if not path.exists():
        if not _is_whole(folder / FRESH_NAME):
            begin_fresh(folder).close()
        set_aside(folder, BESIDE[1:], now)  # a log without its file would be read into the new one
        name_fresh(folder)
    elif path.stat().st_size == 0:
        raise Damaged("the outbox file is empty")
    for named_in in (folder, folder.parent):
        sync_folder(named_in)
    connection = _open(path)
    try:
        assert_whole(connection)
        for leases in (sql.LEASES_SCHEMA, blob_sql.BLOB_LEASES_SCHEMA):
            connection.execute(leases)
        ahead = as_us(now + timedelta(seconds=DUE_AHEAD_MAX_S))
        for heal in (sql.DUE_HEAL, blob_sql.DUE_HEAL):
            connection.execute(heal, {"now": as_us(now), "ahead": ahead, "parked": blob_sql.PARKED})
        connection.execute(sql.HELD_HEAL, {"now": as_us(now)})
    except BaseException:
        connection.close()
        raise
    return connection


def begin_fresh(folder: Path) -> sqlite3.Connection:
    """A new file with the schema, an epoch and no name yet; what was begun before is thrown away."""
    path = folder / FRESH_NAME
    drop_fresh(folder)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return _open(path)


def drop_fresh(folder: Path) -> None:
    """What was begun is gone."""
    for end in BESIDE:
        (folder / f"{FRESH_NAME}{end}").unlink(missing_ok=True)


def name_fresh(folder: Path) -> None:
    """The new file, closed, becomes the folder's; the name is durable once ``connect`` has returned."""
    (folder / FRESH_NAME).rename(folder / FILE_NAME)


def set_aside(folder: Path, ends: Sequence[str], now: datetime) -> str:
    """Rename the file, or what is left beside it, out of the way; returns the name that it has now."""
    aside = f"{FILE_NAME}.corrupt-{now:%Y%m%dT%H%M%S.%fZ}"
    for end in ends:
        with contextlib.suppress(FileNotFoundError):
            (folder / f"{FILE_NAME}{end}").rename(folder / f"{aside}{end}")
    return aside


def _is_whole(path: Path) -> bool:
    """A file in the making was closed in order: its log is gone, and its schema is there."""
    if not path.exists() or any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal")):
        return False
    try:
        uri = f"{path.absolute().as_uri()}?immutable=1"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            return bool(connection.execute("PRAGMA user_version").fetchone()[0] == sql.SCHEMA_VERSION)
    except sqlite3.Error:
        return False


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        timeout=sql.BUSY_TIMEOUT_MS / 1_000,
        isolation_level=None,
        check_same_thread=True,
        cached_statements=STATEMENTS_CACHED,
    )
    try:
        for pragma in sql.PRAGMAS:
            connection.execute(pragma).fetchall()
        _assert_durable(connection)
        _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _assert_durable(connection: sqlite3.Connection) -> None:
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
    if (mode, synchronous) != ("wal", 2):
        raise StoreError(f"the outbox is not durable here: journal_mode={mode}, synchronous={synchronous}")


def _migrate(connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application == 0 and version == 0 and tables == 0:
        connection.execute("BEGIN IMMEDIATE")
        for statement in sql.SCHEMA:
            connection.execute(statement)
        connection.execute(sql.LEDGER_CREATE, (secrets.token_hex(8),))
        connection.execute("COMMIT")
        return
    if application != sql.APPLICATION_ID:
        raise StoreCorrupt("the outbox file belongs to another program")
    while version in sql.UPGRADES:
        connection.execute("BEGIN IMMEDIATE")
        for statement in sql.UPGRADES[version]:
            connection.execute(statement)
        connection.execute("COMMIT")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != sql.SCHEMA_VERSION:
        raise StoreCorrupt(f"the outbox file has schema {version}, this release knows {sql.SCHEMA_VERSION}")
