"""Notices that one of two doors brings nothing of an instance while the other one does. Times are arguments.

Neither door knows that by itself: a gateway that stops publishing leaves a broker that is well, and a webhook
that was switched off leaves a door that waits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from collector.config import CollectorConfig
from contracts.scopes import Source

EVENTS_MIN: Final = 10
"""A quiet instance misses nothing; so many events of the other door are no chance."""

_DOORS: Final = ("webhook", "rabbitmq")
Silent: TypeAlias = tuple[Source, str, int]
"""Instance, the silent channel, and how many bodies the other one brought meanwhile."""


@dataclass(slots=True)
class _Ear:
    missed: int = 0
    since: datetime | None = None


@dataclass(slots=True, kw_only=True)
class Silence:
    """At most ``instances_max`` instances of gateways with both doors; a door counts once it was heard."""

    has_broker: Callable[[str], bool]
    """Of the gateway of that name."""
    publishes: Callable[[Source], bool]
    """Whether the instance is known to publish to RabbitMQ, heard or not."""
    silent_s: float
    instances_max: int
    _ears: OrderedDict[Source, dict[str, _Ear]] = field(default_factory=OrderedDict)

    def heard(self, source: Source, channel: str, now: datetime) -> None:
        """A body of the instance that held facts came by that channel."""
        if channel not in _DOORS or not self.has_broker(source[0]):
            return
        ears = self._ears.get(source)
        if ears is None:
            ears = self._ears[source] = {"rabbitmq": _Ear()} if self.publishes(source) else {}
            while len(self._ears) > self.instances_max:
                self._ears.popitem(last=False)
        ears[channel] = _Ear()
        for other, ear in ears.items():
            if other != channel:
                ear.missed += 1
                ear.since = ear.since or now

    def silent(self, now: datetime) -> Iterator[Silent]:
        """Each door that has been silent for long while the other was not."""
        oldest = now - timedelta(seconds=self.silent_s)
        for source, ears in self._ears.items():
            for channel, ear in ears.items():
                if ear.missed >= EVENTS_MIN and ear.since is not None and ear.since <= oldest:
                    yield source, channel, ear.missed


def silence_of(config: CollectorConfig) -> Silence:
    """Listens to the gateways that have a RabbitMQ beside their webhook."""
    published = {(amqp.gateway, instance) for amqp in config.amqp for instance in amqp.instances}
    return Silence(
        has_broker={amqp.gateway for amqp in config.amqp}.__contains__,
        publishes=published.__contains__,
        silent_s=config.limits.channel_silent_s,
        instances_max=config.limits.instances_max,
    )
