"""What the direct door remembers of the database for a short while: tokens, and the scopes of instances."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

import asyncpg

from contracts.configured import Family, GatewayConfig
from contracts.scopes import Source, default_scope
from ingest.calm import CalmConnection
from ingest.direct import statements
from ingest.direct.statements import TOKENS_MAX
from ingest.direct.tokens import Grant, Presented, matching
from ingest.row import UnavailableError
from ingest.statements import KEEP_SCOPES

LOOK_S_MAX: Final = 5.0
WAITING_MAX: Final = 256
"""Unknown tokens that wait for a look at once; more are sent away, so that they fill no server."""
SCOPE_KNOWN_S: Final = 60.0
SCOPES_KNOWN_MAX: Final = 20_000


class TokenBook:
    """All tokens that are not revoked, as the database had them at most ``known_s_max`` seconds ago."""

    def __init__(self, calm: CalmConnection, *, known_s_max: float, pause_s: float) -> None:
        """``pause_s``: at least so long between two looks, however many unknown tokens are presented."""
        self._calm, self._known_s_max, self._pause_s = calm, known_s_max, pause_s
        self._grants: Mapping[str, Grant] = {}
        self._families: Mapping[str, Family] = {}
        self._touched: dict[str, datetime] = {}
        self._looking = asyncio.Lock()
        self._waiting = 0
        self._looked_at = self._tried_at = float("-inf")

    async def grant(self, presented: Presented, *, on_guess: Callable[[], None]) -> Grant | None:
        """The token's grant; None only when the database, asked after this call began, does not know it.

        ``on_guess`` is called before the database is asked because of a token that is not known; it may
        raise. Raises UnavailableError when the database cannot be asked.
        """
        came_at = time.monotonic()
        if came_at - self._looked_at > self._known_s_max:
            await self._look(came_at)
        grant = matching(self._grants, presented)
        if grant is None:
            on_guess()
            if self._looked_at < came_at:
                await self._look_for_unknown(came_at)
                grant = matching(self._grants, presented)
        if grant is not None:
            await self._touch(grant)
        return grant

    def family_of(self, gateway: str) -> Family | None:
        """The family that the gateway's tokens say."""
        return self._families.get(gateway)

    async def _look_for_unknown(self, came_at: float) -> None:
        if self._waiting >= WAITING_MAX:
            raise UnavailableError("too many unknown tokens")
        self._waiting += 1
        try:
            await self._look(came_at)
        finally:
            self._waiting -= 1

    async def _look(self, came_at: float) -> None:
        """Reads them anew, once for all who came before the reading began."""
        async with self._looking:
            if self._tried_at < came_at:
                await asyncio.sleep(max(0.0, self._tried_at + self._pause_s - time.monotonic()))
                self._tried_at = started_at = time.monotonic()
                await self._calm.run_within(LOOK_S_MAX, self._read)
                self._looked_at = started_at
            if self._looked_at < came_at:
                raise UnavailableError("the tokens cannot be read")

    async def _read(self, connection: asyncpg.Connection[Any]) -> None:
        families = {
            row["gateway"]: cast("Family", row["family"])
            for row in await connection.fetch(statements.FAMILIES, TOKENS_MAX)
        }
        rows = await connection.fetch(statements.LIVE_GRANTS, TOKENS_MAX)
        self._grants, self._families = {row["id"]: _grant(row) for row in rows}, families
        self._touched = {name: hour for name, hour in self._touched.items() if name in self._grants}

    async def _touch(self, grant: Grant) -> None:
        """Notes that it is used, once an hour."""
        hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        noted = self._touched.get(grant.id, grant.last_used_at)
        if noted is None or noted < hour:
            self._touched[grant.id] = hour

            async def touch(connection: asyncpg.Connection[Any]) -> None:
                await connection.execute(statements.TOUCH_GRANT, grant.id)

            await self._calm.run_within(LOOK_S_MAX, touch)


def _grant(row: asyncpg.Record) -> Grant:
    return Grant(
        id=row["id"],
        hash=row["hash"],
        gateway=GatewayConfig(name=row["gateway"], family=row["family"]),
        instances=frozenset(row["instances"]),
        last_used_at=row["last_used_at"],
    )


class ScopeBook:
    """The scope that each instance keeps: that of its first stored event, whichever door it came by."""

    def __init__(
        self,
        calm: CalmConnection,
        *,
        mapped: Mapping[Source, str],
        on_changed: Callable[[str, str], None],
    ) -> None:
        """``on_changed`` takes gateway and instance of which the mapping says something else."""
        self._calm, self._mapped, self._on_changed = calm, mapped, on_changed
        self._kept: dict[Source, tuple[str, float]] = {}

    def scope_of(self, source: Source) -> str:
        """The kept one as far as it is known, else what the mapping says."""
        kept = self._kept.get(source)
        return kept[0] if kept is not None else self._mapped.get(source) or default_scope(source)

    async def settle(self, scopes: Mapping[Source, str]) -> dict[Source, str]:
        """What the instances really keep; the database keeps the given ones of those that it does not know.

        Raises UnavailableError.
        """
        fresh_from = time.monotonic() - SCOPE_KNOWN_S
        asked = {
            source: scope
            for source, scope in scopes.items()
            if self._kept.get(source, ("", fresh_from - 1))[1] < fresh_from
        }
        if not asked:
            return dict(scopes)
        rows = await self._calm.run_within(LOOK_S_MAX, lambda connection: _keep(connection, asked))
        settled = {**scopes, **{(gateway, instance): scope for gateway, instance, scope in rows}}
        for source in asked:
            self._kept.pop(source, None)
            self._kept[source] = settled[source], time.monotonic()
            if self._mapped.get(source, settled[source]) != settled[source]:
                self._on_changed(*source)
        for source in list(self._kept)[: max(0, len(self._kept) - SCOPES_KNOWN_MAX)]:
            del self._kept[source]
        return settled


async def _keep(
    connection: asyncpg.Connection[Any], scopes: Mapping[Source, str]
) -> Iterable[tuple[str, str, str]]:
    rows = await connection.fetch(
        KEEP_SCOPES,
        [gateway for gateway, _ in scopes],
        [instance for _, instance in scopes],
        list(scopes.values()),
    )
    return [(row[0], row[1], row[2]) for row in rows]
