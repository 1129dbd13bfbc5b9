"""The simulated gateway publishes as Evolution does, its losses included."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import islice

from simulator.broker import Publisher, message_of
from simulator.gateway import paced
from simulator.story import Webhook, webhooks
from tests.support.rabbit import Rabbit


def story(count: int) -> list[Webhook]:
    return list(islice(webhooks(3, instances=1, start_at=datetime(2026, 11, 29, tzinfo=UTC)), count))


def test_a_message_is_the_webhook_without_its_destination() -> None:
    (webhook,) = story(1)
    body, message = json.loads(webhook.body), json.loads(message_of(webhook))
    assert body.pop("destination")
    assert list(message.items()) == list(body.items())


async def test_the_first_event_of_a_type_misses_the_gateways_own_queue(rabbit: Rabbit) -> None:
    events = [Webhook(instance=rabbit.instance, event="call", body=b'{"n":%d}' % n) for n in range(3)]
    publisher = Publisher(rabbit.url, instances=(rabbit.instance,), global_exchange="")
    tally = await publisher.run(paced(events, 10_000))
    assert (tally.published, tally.dropped) == (3, 0)
    name = rabbit.gateways("call")
    assert [json.loads(message.body)["n"] for message in await rabbit.fetch_all(name)] == [1, 2]


async def test_while_the_broker_is_away_events_are_dropped() -> None:
    publisher = Publisher("amqp://127.0.0.1:9/", instances=(), global_exchange="any", reconnect_s=0.001)
    tally = await publisher.run(paced(story(3), 10_000))
    assert (tally.published, tally.dropped) == (0, 3)
