"""What a rule of the inbox is made of: the event it sees, the transaction it may write through, the rule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

_Effect = TypeVar("_Effect")


class LoggedEvent(NamedTuple):
    """One row of the lake's log, as a rule sees it."""

    shard: int
    seq: int
    """Order of arrival; of two facts about one subject the higher one is not always the later one."""
    event_id: UUID
    kind: str | None
    type: str
    gateway: str | None
    instance: str | None
    scope: str | None
    chat_jid: str | None
    occurred_at: datetime | None
    received_at: datetime
    payload: bytes | None
    """The gateway's element as JSON text; None when no rule of the consumer reads payloads of this kind."""
    envelope: bytes | None
    """What the gateway's body held besides; None also when there is none."""


class Transaction(Protocol):
    """The one way a rule writes: what it does commits together with the cursor, or not at all.

    A jsonb value is JSON text as bytes, both ways.
    """

    async def execute(self, statement: str, *arguments: Any) -> None:
        """Run one statement."""

    async def fetch(self, statement: str, *arguments: Any) -> Sequence[Mapping[str, Any]]:
        """Run one statement and return its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[_Effect]):
    """What is to be done about events of some kinds, exactly once an event and consumer.

    ``decide`` is pure and sees one event; what it raises parks that event alone. ``apply`` gets the effects
    of a whole batch, of any number of chats: it folds them (of one subject the last wins) and writes them set
    by set, in the order of their keys, so that two batches never wait for each other in a circle. It may be
    called with a part of a batch, and again after a rollback.
    """

    name: str
    decide: Callable[[LoggedEvent], Sequence[_Effect]]
    apply: Callable[[Transaction, Sequence[_Effect]], Awaitable[None]]
    kinds: frozenset[str] | None = None
    """None is every event, also one without a kind."""
    reads_payload: bool = True
