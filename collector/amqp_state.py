"""What is known of one gateway's RabbitMQ door: for status, heartbeat, metrics and the watchdog."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from contracts.heartbeat import BrokerState


@dataclass(slots=True, kw_only=True)
class AmqpState:
    """Counts since the start of the process, and how the door is now."""

    gateway: str
    address: str
    queue: str
    connected: bool = False
    consuming: bool = False
    trouble: str | None = None
    """Why it does not consume."""
    since: datetime | None = None
    """When it last began or ceased to consume."""
    received: int = 0
    redelivered: int = 0
    acked: int = 0
    refused: int = 0
    """Put into our dead-letter queue."""
    connects: int = 0
    held: int = 0
    """Delivered and not yet acknowledged."""
    paused: bool = False
    """Too many bytes are held: nothing is read of the connection."""
    waiting: int | None = None
    """Messages in our queue at the last look."""
    consumers: int | None = None
    """Of our queue at the last look; more than one means that somebody else takes a part of the events."""
    dead: int | None = None
    """Messages in our dead-letter queue at the last look."""
    drained: frozenset[str] = field(default_factory=frozenset)
    """The gateway's own queues that are emptied now."""
    last_message_at: datetime | None = None

    def document(self) -> dict[str, object]:
        """For the status; names no person."""
        return {
            "gateway": self.gateway,
            "address": self.address,
            "queue": self.queue,
            "connected": self.connected,
            "consuming": self.consuming,
            "trouble": self.trouble,
            "since": _text(self.since),
            "received": self.received,
            "redelivered": self.redelivered,
            "acked": self.acked,
            "refused": self.refused,
            "connects": self.connects,
            "held": self.held,
            "paused": self.paused,
            "waiting": self.waiting,
            "consumers": self.consumers,
            "dead": self.dead,
            "drained": len(self.drained),
            "last_message_at": _text(self.last_message_at),
        }

    def report(self) -> BrokerState:
        """For the heartbeat."""
        return BrokerState(
            gateway=self.gateway,
            consuming=self.consuming,
            trouble=self.trouble,
            waiting=self.waiting,
            dead=self.dead,
            last_message_at=_text(self.last_message_at),
        )


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
