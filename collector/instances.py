"""What is known of each instance: its last state, since when, and its last event. Kept over a restart."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from collector.documents import read_document
from contracts.heartbeat import OPEN_STATES
from contracts.scopes import Source
from outbox.store import Store

if TYPE_CHECKING:
    from collector.alerts import Alerts

META_KEY: Final = "instances"
RETRIES_LAST: Final = timedelta(minutes=30)
"""Evolution gives an event up after about 20 minutes."""


_Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
_Second: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=int(datetime.max.replace(tzinfo=UTC).timestamp()))]


class _Row(msgspec.Struct, array_like=True, frozen=True):
    """One instance as the store keeps it."""

    gateway: str
    instance: str
    last_event_at: _Moment
    state: str | None
    state_at: _Moment | None
    stamp: str
    told_at: _Moment | None
    kinds: dict[str, _Second] = {}
    """An earlier release did not keep them."""


@dataclass(slots=True)
class InstanceState:
    """What the heartbeat tells of one instance."""

    last_event_at: datetime
    state: str | None = None
    state_at: datetime | None = None
    """Since when it has been connected, or has not."""
    stamp: str = ""
    """The gateway's own stamp of the event that told the state, and when that came."""
    told_at: datetime | None = None
    kinds: dict[str, datetime] = field(default_factory=dict)
    """When the last event of each kind came."""

    def hear(self, kinds: Iterable[str], now: datetime) -> None:
        """Events of these kinds came by a live channel."""
        self.kinds.update(dict.fromkeys(kinds, now))

    def tell(self, state: str, stamp: str, now: datetime) -> None:
        """Takes the state, unless it is late: a gateway's retries come in any order.

        An older stamp long after is no retry: then the gateway's clock was set back.
        """
        if stamp < self.stamp and self.told_at is not None and now - self.told_at < RETRIES_LAST:
            return
        if self.state is None or (state in OPEN_STATES) != (self.state in OPEN_STATES):
            self.state_at = now
        self.state, self.stamp, self.told_at = state, stamp, now


class Instances:
    """The states of at most ``instances_max`` instances; the one that was seen first is forgotten first."""

    def __init__(self, store: Store, *, instances_max: int) -> None:
        self._store, self._instances_max = store, instances_max
        self._changed = False
        self.seen: OrderedDict[Source, InstanceState] = OrderedDict()

    def saw(self, source: Source, now: datetime) -> InstanceState:
        """An event of the instance came."""
        self._changed = True
        state = self.seen.get(source)
        if state is None:
            state = self.seen[source] = InstanceState(now)
            while len(self.seen) > self._instances_max:
                self.seen.popitem(last=False)
        state.last_event_at = now
        return state

    def forget(self, source: Source) -> None:
        """The instance was deleted: nobody waits for its return."""
        self._changed |= self.seen.pop(source, None) is not None

    async def load(self, alerts: Alerts) -> None:
        """Takes over what an earlier process knew: a restart of ours brings no instance back."""
        for row in await read_document(self._store, META_KEY, list[_Row], alerts) or []:
            self.seen[row.gateway, row.instance] = InstanceState(
                row.last_event_at,
                row.state,
                row.state_at,
                row.stamp,
                row.told_at,
                {kind: datetime.fromtimestamp(at_s, UTC) for kind, at_s in row.kinds.items()},
            )

    async def save(self) -> None:
        """Writes them when an event came since the last time."""
        if not self._changed:
            return
        rows = [
            (
                *source,
                _text(s.last_event_at),
                s.state,
                _text(s.state_at),
                s.stamp,
                _text(s.told_at),
                {kind: int(at.timestamp()) for kind, at in s.kinds.items()},
            )
            for source, s in self.seen.items()
        ]
        self._changed = False
        try:
            await self._store.set_meta(META_KEY, json.dumps(rows).encode())
        except BaseException:
            self._changed = True
            raise


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
