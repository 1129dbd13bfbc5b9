"""What the collector is told of a gateway's RabbitMQ, and what everything there is called. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from contracts.configured import refuse

GLOBAL_EXCHANGE: Final = "evolution_exchange"
"""Evolution's own default (``RABBITMQ_EXCHANGE_NAME``)."""
PREFETCH: Final = 250
PREFETCH_MAX: Final = 10_000
NAME_BYTES_MAX: Final = 200
"""AMQP has room for 255; the event's name, or our suffix, is added."""
RETURNED: Final = ".returned"
"""Ends the name of the queue where the broker puts what it will not deliver again; it is consumed too."""
DLQ: Final = ".dlq"
"""Ends the name of the queue where what we refuse is kept for a person."""
DELIVERIES_MAX: Final = 1_000_000_000
DLQ_ARGUMENTS: Final[dict[str, str | int]] = {"x-queue-type": "quorum", "x-delivery-limit": DELIVERIES_MAX}

EVENTS: Final = (
    "application.startup", "call", "chats.delete", "chats.set", "chats.update", "chats.upsert",
    "connection.update", "contacts.set", "contacts.update", "contacts.upsert", "group-participants.update",
    "group.participants.update", "group.update", "groups.update", "groups.upsert", "instance.create",
    "instance.delete", "labels.association", "labels.edit", "logout.instance", "messages.delete",
    "messages.edited", "messages.set", "messages.update", "messages.upsert", "presence.update",
    "qrcode.updated", "remove.instance", "send.message", "send.message.update", "status.instance",
    "typebot.change-status", "typebot.start",
)  # fmt: skip
"""Evolution 2.3.7 names a queue after each; ``group.participants.update`` is one that it makes by mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpConfig:
    """The RabbitMQ of one Evolution gateway. The URL holds credentials and is never shown."""

    gateway: str
    url: str = field(repr=False)
    instances: tuple[str, ...] = ()
    """Each has an exchange of its name, which is declared before the gateway does."""
    global_exchange: str = GLOBAL_EXCHANGE
    """Where the gateway publishes the events of all instances; empty when it does not."""
    prefix: str = ""
    """``RABBITMQ_PREFIX_KEY``: what the gateway's own queues of the global exchange begin with."""
    queue: str = ""
    """Our own queue; empty is ``zaplake.<collector>.<gateway>``."""
    prefetch: int = PREFETCH
    """Messages that may be with us unacknowledged; their bytes have a limit of their own."""
    drain_gateway_queues: bool = True
    """Empty the gateway's own queues too: unread they fill the broker's disk."""

    def __post_init__(self) -> None:
        where = f"amqp of gateway {self.gateway}"
        refuse(
            not _is_amqp(self.url), f"{where}: url: as amqp://user:password@host:port/vhost, percent-encoded"
        )
        for name in (*self.instances, self.global_exchange, self.prefix, self.queue):
            refuse(
                len(name.encode()) > NAME_BYTES_MAX, f"{where}: a name has more than {NAME_BYTES_MAX} bytes"
            )
            refuse(name.startswith("amq."), f"{where}: names in amq. are the broker's own")
        refuse(not all(self.instances), f"{where}: instances: an empty name")
        refuse(not self.exchanges, f"{where}: neither instances nor global_exchange: nothing would arrive")
        refuse(not 1 <= self.prefetch <= PREFETCH_MAX, f"{where}: prefetch: 1 to {PREFETCH_MAX}")

    @property
    def password(self) -> str:
        """As the URL has it, decoded; empty without one."""
        return unquote(urlsplit(self.url).password or "")

    @property
    def address(self) -> str:
        """Where the broker is, without credentials; for people."""
        url = urlsplit(self.url)
        host = f"[{url.hostname}]" if url.hostname and ":" in url.hostname else url.hostname
        return f"{url.scheme}://{host}{f':{url.port}' if url.port else ''}{url.path}"

    @property
    def exchanges(self) -> tuple[str, ...]:
        """All that our queue is bound to."""
        return tuple(dict.fromkeys(name for name in (*self.instances, self.global_exchange) if name))

    def own_queue(self, collector: str) -> str:
        """What our own queue is called."""
        return self.queue or f"zaplake.{collector}.{self.gateway}"

    def gateway_queue(self, exchange: str, event: str) -> str:
        """The gateway's own queue for an event of that exchange."""
        if exchange != self.global_exchange:
            return f"{exchange}.{event}"
        return f"{self.prefix}.{event}" if self.prefix else event

    def instance_of(self, exchange: str) -> str | None:
        """The instance that the exchange belongs to; None for the global one, whose bodies name theirs."""
        return exchange if exchange in self.instances else None


def _is_amqp(text: str) -> bool:
    """What the library refuses too, without its words: they would show a piece of a password."""
    try:
        url = urlsplit(text)
        return url.scheme in {"amqp", "amqps"} and bool(url.hostname) and url.port != 0
    except ValueError:
        return False


def queue_arguments(dead_letter_to: str) -> dict[str, str | int]:
    """What makes a queue of ours safe: replicated, and nothing is dropped by the broker, only moved on.

    Quorum: the gateway publishes transient messages, which a classic queue forgets at a restart. The limit of
    deliveries is out of reach (RabbitMQ 4 has 20 by default; -1 means 0 to RabbitMQ 3), and if a policy
    lowers it, the broker moves the message to ``dead_letter_to`` and keeps it until it has arrived there.
    """
    return {
        "x-queue-type": "quorum",
        "x-delivery-limit": DELIVERIES_MAX,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead_letter_to,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
