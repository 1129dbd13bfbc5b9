"""Whether each instance is connected, and since when (``lake.instance_states``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from contracts.gateways.shape import first_word, mapping, member_at
from contracts.heartbeat import OPEN_STATES
from contracts.inbox import LoggedEvent, Rule, Transaction
from contracts.times import as_datetime, as_integer
from ingest.rules.reading import document
from ingest.rules.statements import KEEP_INSTANCES

RETRIES_LAST: Final = timedelta(minutes=30)
"""Evolution gives an event up after about 20 minutes."""
BY_KIND: Final[Mapping[str, str]] = {
    "instance.create": "created",
    "instance.logout": "logged_out",
    "instance.remove": "removed",
    "instance.delete": "deleted",
}
_INTEGER_MAX: Final = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceState:
    """What one event says of an instance; ``told_at`` is the gateway's time, where it gives one."""

    gateway: str
    instance: str
    scope: str | None
    state: str
    reason: int | None
    told_at: datetime
    received_at: datetime
    event_id: UUID
    since: datetime
    has_turned: bool = False
    """Within what was folded it was once connected and once not."""

    @property
    def is_open(self) -> bool:
        """Whether it is connected."""
        return self.state in OPEN_STATES


def decide(event: LoggedEvent) -> Sequence[InstanceState]:
    """The state that the event tells; nothing for an update that tells none, such as ``{isOnline}``."""
    if event.gateway is None or event.instance is None:
        return ()
    body = document(event.payload)
    state = BY_KIND.get(event.kind or "") or first_word(
        body.get("connection"), body.get("state"), body.get("status")
    )
    if state is None:
        return ()
    told_at = _told_at(event)
    return (
        InstanceState(
            gateway=event.gateway,
            instance=event.instance,
            scope=event.scope,
            state=state,
            reason=_reason(body),
            told_at=told_at,
            received_at=event.received_at,
            event_id=event.event_id,
            since=told_at,
        ),
    )


def _told_at(event: LoggedEvent) -> datetime:
    """Evolution's and WAHA's stamp: equal in all retries. Only ever compared within one instance."""
    envelope = document(event.envelope)
    stamp = as_datetime(first_word(envelope.get("date_time"), envelope.get("timestamp")))
    return stamp or event.occurred_at or event.received_at


def _reason(body: Mapping[str, object]) -> int | None:
    code = body.get("statusReason")
    if code is None:
        error = mapping(mapping(body.get("lastDisconnect")).get("error"))
        code = member_at(error, ("output", "statusCode"))
    reason = as_integer(code)
    return reason if reason is not None and abs(reason) < _INTEGER_MAX else None


def fold(states: Sequence[InstanceState]) -> list[InstanceState]:
    """One state an instance, as if they had been written one by one."""
    kept: dict[tuple[str, str], InstanceState] = {}
    for new in states:
        key = (new.gateway, new.instance)
        old = kept.get(key)
        kept[key] = new if old is None else _later(old, new)
    return list(kept.values())


def _later(old: InstanceState, new: InstanceState) -> InstanceState:
    if new.told_at < old.told_at and new.received_at <= old.received_at + RETRIES_LAST:
        return old
    turns = new.is_open != old.is_open
    return InstanceState(
        gateway=new.gateway,
        instance=new.instance,
        scope=new.scope,
        state=new.state,
        reason=new.reason,
        told_at=new.told_at,
        received_at=new.received_at,
        event_id=new.event_id,
        since=new.since if turns else old.since,
        has_turned=old.has_turned or turns,
    )


async def apply(transaction: Transaction, states: Sequence[InstanceState]) -> None:
    """Write them."""
    folded = fold(states)
    await transaction.execute(
        KEEP_INSTANCES,
        [state.gateway for state in folded],
        [state.instance for state in folded],
        [state.scope for state in folded],
        [state.state for state in folded],
        [state.is_open for state in folded],
        [state.reason for state in folded],
        [state.since for state in folded],
        [state.told_at for state in folded],
        [state.received_at for state in folded],
        [state.event_id for state in folded],
        [state.event_id for state in folded if state.has_turned],
    )


RULE: Final = Rule(
    name="instance_states", kinds=frozenset({"connection", *BY_KIND}), decide=decide, apply=apply
)
