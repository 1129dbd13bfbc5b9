"""One connection of the writer: commits batches of rows, and heals by itself when Postgres returns."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

import asyncpg
import structlog

from contracts.blobs import BlobRef
from ingest.blob_statements import REFER
from ingest.columns import columns_of
from ingest.config import CANCEL_S, IngestConfig
from ingest.row import Committed, Row, RowRefusedError, UnavailableError
from ingest.statements import COUNT_COPIES, INSERT_EVENTS, KEEP_SCOPES

log: Final = structlog.get_logger("ingest")

SCOPES_KNOWN_MAX: Final = 20_000
"""How many instances a lane remembers as known to lake.scopes; a forgotten one is asked again."""

DATABASE_ERRORS: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""All that the driver raises; the last one when a connection dies between two steps of its protocol."""

_REFUSED_CLASSES: Final = frozenset({"22", "23", "54"})
"""Data exception, integrity violation, program limit exceeded (hazard B86): the row's own fault."""
_REFUSED_STATES: Final = frozenset({"P0001", "0A000"})
"""Raised by a trigger; feature not supported (such as an escape that jsonb cannot hold)."""


async def connect(
    config: IngestConfig, *, name: str, idles_in_transaction: bool = False
) -> asyncpg.Connection[Any]:
    """``open_connection`` with the limits of ingest. Raises UnavailableError."""
    return await open_connection(
        config.dsn,
        name=name,
        connect_s_max=config.connect_s_max,
        statement_s_max=config.commit_s_max,
        transaction_pooler=config.transaction_pooler,
        idles_in_transaction=idles_in_transaction,
    )


async def open_connection(
    dsn: str,
    *,
    name: str,
    connect_s_max: float,
    statement_s_max: float,
    transaction_pooler: bool,
    idles_in_transaction: bool = False,
) -> asyncpg.Connection[Any]:
    """A connection with our timeouts, durable commits and jsonb as bytes. Raises UnavailableError."""
    settings = None
    if not transaction_pooler:
        settings = {
            "application_name": name,
            "statement_timeout": str(round(statement_s_max * 1000)),
            # a process that stands still within a transaction must not hold back ingest nor the horizon
            "idle_in_transaction_session_timeout": "0"
            if idles_in_transaction
            else str(round(statement_s_max * 1000)),
            "synchronous_commit": "on",
            # a database or a role may have another default, with which rows would be skipped or refused
            "default_transaction_isolation": "read committed",
            "jit": "off",
        }
    try:
        connection = await asyncpg.connect(
            dsn,
            timeout=connect_s_max,
            command_timeout=statement_s_max + CANCEL_S,
            statement_cache_size=0 if transaction_pooler else 100,
            server_settings=settings,
        )
    except DATABASE_ERRORS as error:
        hint = "; set transaction_pooler?" if "startup parameter" in str(error) else ""
        raise UnavailableError(f"connect: {type(error).__name__}{hint}") from error
    try:
        await connection.set_type_codec(
            "jsonb", schema="pg_catalog", encoder=_jsonb, decoder=_json_text, format="binary"
        )
    except DATABASE_ERRORS as error:
        connection.terminate()
        raise UnavailableError(f"connect: {type(error).__name__}") from error
    return connection


def _jsonb(text: bytes) -> bytes:
    return b"\x01" + text


def _json_text(data: bytes) -> bytes:
    return data[1:]


class Lane:
    """A ``CommitBatch`` on one connection; never used by two tasks at once."""

    def __init__(
        self,
        config: IngestConfig,
        *,
        number: int,
        on_scope_changed: Callable[[str, str], None],
        on_conflicts: Callable[[int], None],
    ) -> None:
        self._config = config
        self._name = f"zaplake-ingest-{number}"
        self._on_scope_changed = on_scope_changed
        self._on_conflicts = on_conflicts
        self._connection: asyncpg.Connection[Any] | None = None
        self._closed_until = 0.0
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()

    async def commit(self, rows: Sequence[Row]) -> list[Committed]:
        """See ``ingest.row.CommitBatch``: one transaction, mostly one statement; it returns after COMMIT."""
        connection = await self._connected()
        try:
            return await self._commit(connection, rows)
        except asyncpg.PostgresError as error:
            state = error.sqlstate or ""
            if _is_rows_fault(error, state):
                raise RowRefusedError(f"SQLSTATE {state}") from error
            self._lost(f"SQLSTATE {state}")
            raise UnavailableError(f"SQLSTATE {state}") from error
        except DATABASE_ERRORS as error:
            self._lost(type(error).__name__)
            raise UnavailableError(type(error).__name__) from error
        except asyncio.CancelledError:
            self._lost("stopped")
            raise

    async def close(self) -> None:
        """Close the connection, without waiting for a server that does not answer."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                await connection.close(timeout=CANCEL_S)
            except DATABASE_ERRORS:
                connection.terminate()

    async def _connected(self) -> asyncpg.Connection[Any]:
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        if time.monotonic() < self._closed_until:
            raise UnavailableError("reconnect pause")
        try:
            self._connection = await connect(self._config, name=self._name)
        except UnavailableError as error:
            self._closed_until = time.monotonic() + self._config.reconnect_pause_s
            log.warning("database.away", lane=self._name, reason=str(error))
            raise
        log.info("database.connected", lane=self._name)
        return self._connection

    def _lost(self, reason: str) -> None:
        """The outcome is unknown or the server refuses to work: the next commit connects anew."""
        log.warning("commit.unknown", lane=self._name, reason=reason)
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _commit(self, connection: asyncpg.Connection[Any], rows: Sequence[Row]) -> list[Committed]:
        firsts: dict[str, Row] = {}
        for row in rows:
            firsts.setdefault(row.event_id, row)
        refs = [(row.event_id, ref) for row in rows if row.blobs for ref in row.blobs]
        columns = columns_of(list(firsts.values()))
        if refs:
            stored = await self._insert_with_refs(connection, columns, refs)
        else:
            stored = await connection.fetch(INSERT_EVENTS, *columns)
        if len(stored) == len(rows):
            fates = [Committed.STORED] * len(rows)
        else:
            fresh = {str(record[0]) for record in stored}
            fates = [
                Committed.STORED
                if row.event_id in fresh and firsts[row.event_id] is row
                else Committed.DUPLICATE
                for row in rows
            ]
            copies = [row for row, fate in zip(rows, fates, strict=True) if fate is Committed.DUPLICATE]
            await self._count_copies(connection, copies)
        await self._keep_scopes(connection, rows)
        return fates

    async def _insert_with_refs(
        self, connection: asyncpg.Connection[Any], columns: list[Any], refs: Sequence[tuple[str, BlobRef]]
    ) -> list[asyncpg.Record]:
        """Events and their blobs in one transaction; copies too, since another body may have others."""
        async with connection.transaction():
            stored: list[asyncpg.Record] = await connection.fetch(INSERT_EVENTS, *columns)
            await connection.execute(
                REFER,
                [event_id for event_id, _ in refs],
                [ref.sha256 for _, ref in refs],
                [ref.lost for _, ref in refs],
            )
        return stored

    async def _count_copies(self, connection: asyncpg.Connection[Any], copies: Sequence[Row]) -> None:
        """Counted before they are answered; a sender that gets no answer sends, and is counted, again."""
        counts: dict[tuple[str, bytes | None], int] = {}
        payloads: dict[tuple[str, bytes | None], Any] = {}
        for row in copies:
            key = (row.event_id, row.digest)
            counts[key] = counts.get(key, 0) + 1
            payloads.setdefault(key, None if row.digest is None else row.payload)
        self._on_conflicts(
            await connection.fetchval(
                COUNT_COPIES,
                [key[0] for key in counts],
                [key[1] for key in counts],
                list(payloads.values()),
                list(counts.values()),
            )
        )

    async def _keep_scopes(self, connection: asyncpg.Connection[Any], rows: Sequence[Row]) -> None:
        known = self._known
        unknown: dict[tuple[str, str], str] = {}
        for row in rows:
            if row.scope is not None and row.gateway is not None and row.instance is not None:
                pair = (row.gateway, row.instance)
                if known.get(pair) != row.scope:
                    unknown.setdefault(pair, row.scope)
        if not unknown:
            return
        kept = await connection.fetch(
            KEEP_SCOPES,
            [gateway for gateway, _ in unknown],
            [instance for _, instance in unknown],
            list(unknown.values()),
        )
        for gateway, instance, scope in kept:
            if scope != unknown[gateway, instance]:
                self._on_scope_changed(gateway, instance)
            # What was given is remembered, so that a mapping that differs is told once and not a row.
            known[gateway, instance] = unknown[gateway, instance]
        while len(known) > SCOPES_KNOWN_MAX:
            known.popitem(last=False)


def _is_rows_fault(error: asyncpg.PostgresError, state: str) -> bool:
    """Whether another database would refuse the row too; else it is an outage of this one."""
    if isinstance(error, asyncpg.CheckViolationError) and error.table_name and not error.constraint_name:
        return False  # no partition for the row: somebody detached one too many
    return state[:2] in _REFUSED_CLASSES or state in _REFUSED_STATES
