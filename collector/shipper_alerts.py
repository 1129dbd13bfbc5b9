"""Turns what the shipper tells into log lines and alerts; ids and labels only, never a body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, assert_never

import structlog

from collector.alerts import Alerts
from outbox.shipper_events import (
    RecordDead,
    RecordDelayed,
    ShipperEvent,
    ShipperHalted,
    ShipperPaused,
    ShipperResumed,
    StoreFailing,
    StoreRecovered,
)

_log = structlog.get_logger("collector.shipper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the alerts of one shipper are called."""

    halted: str
    dead: str


EVENTS: Final = Names(halted="shipper.halted", dead="outbox.dead")
BLOBS: Final = Names(halted="blobs.halted", dead="blobs.dead")


def telling(alerts: Alerts, names: Names = EVENTS) -> Callable[[ShipperEvent], None]:
    """The shipper's ``on_event``. An outage is a log line; what needs a person is an alert."""

    def tell(event: ShipperEvent) -> None:
        match event:
            case ShipperPaused(reason=reason):
                _log.warning(event.name, reason=reason, next_probe_at=event.next_probe_at.isoformat())
            case ShipperHalted(reason=reason):
                alerts.raise_(names.halted, detail=reason)
            case ShipperResumed(away_s=away_s):
                _log.info(event.name, away_s=round(away_s, 1))
                alerts.resolve(names.halted)
            case RecordDead(status=status, reason=reason):
                _log.warning(event.name, id=event.id, label=event.label, status=status, reason=reason)
                alerts.raise_(names.dead, detail=f"{reason}: zaplake collector dead list")
            case RecordDelayed(attempts=attempts, reason=reason):
                _log.info(event.name, id=event.id, label=event.label, attempts=attempts, reason=reason)
            case StoreFailing(reason=reason):
                alerts.raise_("store.failing", detail=reason)
            case StoreRecovered():
                alerts.resolve("store.failing")
            case _:
                assert_never(event)

    return tell
