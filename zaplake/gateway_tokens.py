"""The direct door's tokens, as an operator makes, lists and revokes them; a token is shown once."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from contracts.configured import FAMILIES, Family
from ingest.direct import statements
from ingest.direct.tokens import ID_CHARS, SECRET_BYTES, compose, hash_of
from zaplake.query import lake
from zaplake.settings import Settings
from zaplake.trouble import Trouble, UsageTrouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A new token. The database has only its hash: this is the one time that it can be read."""

    id: str
    token: str
    gateway: str
    family: Family
    instances: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A token as far as the database knows it."""

    id: str
    gateway: str
    family: str
    instances: tuple[str, ...]
    created_at: datetime
    last_used_at: datetime | None
    """To the hour."""
    revoked_at: datetime | None


def family_for(settings: Settings, gateway: str, given: Family | None) -> Family:
    """The family said, else the one of the settings, else the one that the gateway is named like."""
    configured = next((entry.family for entry in settings.gateways if entry.name == gateway), None)
    if given is not None and configured not in {None, given}:
        raise UsageTrouble(f"the settings call {gateway} a gateway of {configured}", "leave --family out")
    found = given or configured or next((family for family in FAMILIES if family == gateway), None)
    if found is None:
        raise UsageTrouble(f"what {gateway} is, is not known", f"say --family, one of {', '.join(FAMILIES)}")
    return found


async def create(dsn: str, gateway: str, family: Family, instances: Sequence[str]) -> Made:
    """Raises Trouble, also when the gateway has a token of another family."""
    if not gateway or "/" in gateway:
        raise UsageTrouble("a gateway's name has at least a character and no '/'", "choose another name")
    token_id, secret = secrets.token_hex(ID_CHARS // 2), secrets.token_urlsafe(SECRET_BYTES)
    made = Made(
        id=token_id,
        token=compose(token_id, secret),
        gateway=gateway,
        family=family,
        instances=tuple(dict.fromkeys(instances)),
    )
    async with lake(dsn) as connection, connection.transaction():
        await _insert(connection, made)
    return made


async def listed(dsn: str, *, revoked_too: bool) -> list[Listed]:
    """By gateway, oldest first. Raises Trouble."""
    async with lake(dsn) as connection:
        rows = await connection.fetch(statements.LIST_GRANTS, revoked_too)
    return [Listed(**{**row, "instances": tuple(row["instances"])}) for row in map(dict, rows)]


async def revoke(dsn: str, token_id: str) -> tuple[str, datetime]:
    """Its gateway and when it was revoked, the first time. Raises Trouble when there is no such token."""
    async with lake(dsn) as connection:
        row = await connection.fetchrow(statements.REVOKE_GRANT, token_id)
    if row is None:
        raise Trouble("there is no token of that id", "see: zaplake gateway token list")
    return row["gateway"], row["revoked_at"]


async def _insert(connection: asyncpg.Connection[Any], made: Made) -> None:
    await connection.execute(statements.CREATE_LOCK)
    other = await connection.fetchval(statements.FAMILY_OF_GATEWAY, made.gateway)
    if other not in {None, made.family}:
        raise Trouble(
            f"{made.gateway} has tokens of family {other}",
            "a gateway is of one family: choose another name, or revoke those first",
        )
    if await connection.fetchval(statements.COUNT_LIVE_GRANTS) >= statements.TOKENS_MAX:
        raise Trouble(
            f"there are {statements.TOKENS_MAX} tokens already", "revoke some: zaplake gateway token list"
        )
    await connection.execute(
        statements.CREATE_GRANT,
        made.id,
        hash_of(made.token.encode()),
        made.gateway,
        made.family,
        list(made.instances),
    )
