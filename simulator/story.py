"""What happens at the simulated instances: an endless, seeded stream of webhooks; disturbed on its way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final, Literal

import msgspec

from simulator import shapes
from simulator.people import EMOJI, TEXTS, Person, World, make_world
from simulator.shapes import Json, Object

LAG_WEBHOOKS_MAX: Final = 12
"""How many later webhooks may overtake one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One emit of the gateway; every retry of it has these very bytes."""

    instance: str
    event: str
    body: bytes


def webhooks(seed: int, *, instances: int, start_at: datetime) -> Iterator[Webhook]:
    """Everything that is emitted, once and in order; endless. Equal arguments give equal bytes."""
    rng = Random(seed)  # noqa: S311 (a story, not a secret)
    tellers = [Instance(make_world(rng, number), rng, start_at) for number in range(instances)]
    for teller in tellers:
        yield from teller.connect()
    while True:
        yield from rng.choice(tellers).happen()


def disturbed(
    source: Iterable[Webhook], seed: int, *, repeat_share: float, delay_share: float
) -> Iterator[Webhook]:
    """The same webhooks, some again and some late: each at least once, none lost when ``source`` ends."""
    rng = Random(seed)  # noqa: S311 (a story, not a secret)
    late: list[tuple[int, Webhook]] = []
    for position, webhook in enumerate(source):
        due = [item for item in late if item[0] <= position]
        late = [item for item in late if item[0] > position]
        yield from (kept for _, kept in due)
        if rng.random() < delay_share:
            late.append((position + rng.randint(1, LAG_WEBHOOKS_MAX), webhook))
        else:
            yield webhook
        if rng.random() < repeat_share:
            late.append((position + rng.randint(1, LAG_WEBHOOKS_MAX), webhook))
    yield from (kept for _, kept in late)


def carried(
    source: Iterable[Webhook], channel: Literal["webhook", "rabbitmq"], *, seed: int, drop_share: float
) -> Iterator[Webhook]:
    """What comes by that channel: ``drop_share`` of the events by only one of the two, the others by both."""
    for webhook in source:
        digest = hashlib.sha256(f"{seed} ".encode() + webhook.body).digest()
        chance = int.from_bytes(digest[:8]) / 2**64
        is_lost = chance < drop_share / 2 if channel == "webhook" else drop_share / 2 <= chance < drop_share
        if not is_lost:
            yield webhook


class Instance:
    """One connected phone and what its people do."""

    def __init__(self, world: World, rng: Random, start_at: datetime) -> None:
        self._world = world
        self._rng = rng
        self._now = start_at.astimezone(UTC)
        self._plots = (
            (8, self._direct_text),
            (5, self._group_text),
            (3, self._image),
            (5, self._answer),
            (3, self._reactions),
            (2, self._edit),
            (1, self._revoke),
            (1, self.connect),
            (2, self._presence),
            (1, self._call),
        )

    def connect(self) -> Iterator[Webhook]:
        """connecting, then open, as after every start."""
        yield self._emit("connection.update", shapes.connection(self._world, "connecting"))
        yield self._emit("connection.update", shapes.connection(self._world, "open"))

    def happen(self) -> Iterator[Webhook]:
        """The next thing that somebody does: one to five webhooks."""
        weights = [weight for weight, _ in self._plots]
        plot = self._rng.choices([plot for _, plot in self._plots], weights)[0]
        return plot()

    def _emit(self, event: str, data: Json) -> Webhook:
        self._now += timedelta(milliseconds=self._rng.randint(1, 900))
        envelope: Object = {
            "event": event,
            "instance": self._world.instance,
            "data": data,
            "destination": "http://coletor.exemplo.test",
            "date_time": self._now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self._now.microsecond // 1000:03d}Z",
            "sender": self._world.owner_jid,
            "server_url": "http://evo.exemplo.test",
            "apikey": None,
        }
        return Webhook(instance=self._world.instance, event=event, body=msgspec.json.encode(envelope))

    def _message_id(self) -> str:
        return f"3EB0{self._rng.getrandbits(64):016X}"

    def _person(self) -> Person:
        return self._rng.choice(self._world.people)

    def _said(self, key: Object, person: Person, kind: str, content: Json) -> Webhook:
        at_s = int(self._now.timestamp())
        return self._emit(
            "messages.upsert",
            shapes.message(self._world, key, person.name, "DELIVERY_ACK", kind, content, at_s),
        )

    def _direct_text(self) -> Iterator[Webhook]:
        person = self._person()
        yield self._said(
            shapes.incoming_key(self._message_id(), person, None),
            person,
            "conversation",
            self._rng.choice(TEXTS),
        )
        yield self._emit("contacts.update", shapes.contact(self._world, person))

    def _group_text(self) -> Iterator[Webhook]:
        person, group = self._person(), self._rng.choice(self._world.groups)
        yield self._said(
            shapes.incoming_key(self._message_id(), person, group),
            person,
            "conversation",
            self._rng.choice(TEXTS),
        )

    def _image(self) -> Iterator[Webhook]:
        person = self._person()
        content = shapes.image(self._rng.randbytes(32), "comprovante", int(self._now.timestamp()))
        yield self._said(
            shapes.incoming_key(self._message_id(), person, None), person, "imageMessage", content
        )

    def _answer(self) -> Iterator[Webhook]:
        person, message_id = self._person(), self._message_id()
        text, at_s = self._rng.choice(TEXTS), int(self._now.timestamp())
        key = shapes.outgoing_key(message_id, person)
        yield self._emit(
            "send.message", shapes.message(self._world, key, "Você", "PENDING", "conversation", text, at_s)
        )
        for status in ("SERVER_ACK", "DELIVERY_ACK", "READ")[: self._rng.randint(1, 3)]:
            yield self._emit("messages.update", shapes.receipt(self._world, message_id, person, status))

    def _reactions(self) -> Iterator[Webhook]:
        person, group = self._person(), self._rng.choice(self._world.groups)
        target = shapes.incoming_key(self._message_id(), person, group)
        yield self._said(target, person, "conversation", self._rng.choice(TEXTS))
        friend, emoji = self._person(), self._rng.choice(EMOJI)
        for mood in (emoji, "", emoji)[: self._rng.choice((1, 3))]:
            own = shapes.incoming_key(self._message_id(), friend, group)
            content = shapes.reaction(target, mood, int(self._now.timestamp() * 1000))
            yield self._said(own, friend, "reactionMessage", content)

    def _edit(self) -> Iterator[Webhook]:
        person = self._person()
        target = shapes.incoming_key(self._message_id(), person, None)
        yield self._said(target, person, "conversation", self._rng.choice(TEXTS))
        for number in range(1, self._rng.randint(2, 3)):
            text = f"{self._rng.choice(TEXTS)} (corrigido {number})"
            at_ms = int(self._now.timestamp() * 1000) + number * 1000
            yield self._emit("messages.edited", shapes.edited(target, text, at_ms))
            yield self._emit("messages.update", shapes.edit_echo(self._world, target, text))

    def _revoke(self) -> Iterator[Webhook]:
        person, group = self._person(), self._rng.choice(self._world.groups)
        target = shapes.incoming_key(self._message_id(), person, group)
        yield self._said(target, person, "conversation", self._rng.choice(TEXTS))
        yield self._emit("messages.edited", {"key": target, "type": "REVOKE"})
        yield self._emit("messages.delete", {**target, "status": "DELETED"})

    def _presence(self) -> Iterator[Webhook]:
        yield self._emit("presence.update", shapes.presence(self._person()))

    def _call(self) -> Iterator[Webhook]:
        lid = self._person().lid
        call: Object = {
            "chatId": lid,
            "from": lid,
            "id": self._message_id(),
            "offline": False,
            "isVideo": False,
        }
        for status in ("offer", self._rng.choice(("accept", "timeout"))):
            yield self._emit("call", {**call, "status": status})
