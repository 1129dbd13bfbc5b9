"""More bytes wait in the broker than the door may hold: it starts all the same and takes them all."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from collector.amqp_answers import BrokerGone, Reading
from collector.amqp_config import DLQ, RETURNED
from tests.collector.amqp.test_door import (
    NO_BACKEND,
    Troubled,
    broker_of,
    consuming,
    counted,
    opening,
    reaches,
    settled,
)
from tests.collector.running import collector_config, limits, message, running
from tests.support.rabbit import Rabbit

ROOM = limits(body_bytes_max=1000, bodies_in_flight_bytes_max=1000, amqp_watch_s=0.05)
"""Two messages are too many."""
COUNT = 40


def large(number: int, rabbit: Rabbit) -> bytes:
    body = message(number, rabbit.instance, more="x" * 400)
    assert 500 < len(body) <= ROOM.body_bytes_max
    return body


async def test_a_backlog_above_what_may_be_held_is_taken_in_one_connection(
    tmp_path: Path, rabbit: Rabbit
) -> None:
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=ROOM)
    async with running(config) as collector:
        await consuming(collector)
    await rabbit.publish(*(large(number, rabbit) for number in range(COUNT)))
    await rabbit.put(rabbit.queue + RETURNED, *(large(number, rabbit) for number in range(COUNT, 2 * COUNT)))
    async with running(config) as collector:
        await counted(collector, stored=2 * COUNT)
        await consuming(collector)
        broker = await broker_of(collector)
        assert (broker["connects"], broker["redelivered"], broker["refused"]) == (1, 0, 0)


async def test_what_is_refused_among_more_than_may_be_held_is_kept_in_the_same_connection(
    tmp_path: Path, rabbit: Rabbit
) -> None:
    """While too much is held nothing is read, and the broker's confirm would not be either."""
    bodies = [large(number, rabbit) for number in range(COUNT)]
    for number in range(0, COUNT, 8):
        bodies[number] = b"not json" + b"x" * 500
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=ROOM)
    async with running(config) as collector:
        await consuming(collector)
        await rabbit.publish(*bodies)
        await counted(collector, stored=COUNT - 5)
        await reaches(collector, "all are settled", settled(refused=5, acked=COUNT, connects=1))
    assert await rabbit.waiting(rabbit.queue + DLQ) == 5


async def test_a_backlog_that_finds_the_outbox_away_is_handed_back_and_taken_later(
    tmp_path: Path, rabbit: Rabbit
) -> None:
    stores: list[Troubled] = []
    async with running(collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),))) as collector:
        await consuming(collector)
    await rabbit.publish(*(large(number, rabbit) for number in range(COUNT)))
    hasty = dataclasses.replace(ROOM, amqp_hold_s_max=0.1)
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=hasty)
    async with running(config, opening(tmp_path, stores)) as collector:
        await reaches(collector, "it comes again", lambda broker: broker["redelivered"] > 0)
        stores[0].trouble = None
        await counted(collector, stored=COUNT)
        await consuming(collector)


async def test_an_answer_that_waits_unread_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.amqp_answers.ANSWER_S_MAX", 0.0)
    reading, never = Reading(), asyncio.Event()
    reading.pause()
    asked = asyncio.create_task(_ask(reading, never))
    for _turn in range(10):
        await asyncio.sleep(0)
    assert not asked.done()
    reading.resume()
    with pytest.raises(BrokerGone, match="TimeoutError"):
        await asked


async def test_an_answer_may_come_behind_deliveries_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, come = Reading(), asyncio.Event()
    asked = asyncio.create_task(_ask(reading, come))
    await asyncio.sleep(0)
    monkeypatch.setattr("collector.amqp_answers.BEHIND_S_MAX", 0.0)
    monkeypatch.setattr("collector.amqp_answers.ANSWER_S_MAX", 0.0)
    await reading.room()
    assert not asked.done()
    monkeypatch.setattr("collector.amqp_answers.BEHIND_S_MAX", 3600.0)
    await reading.room()
    with pytest.raises(BrokerGone, match="TimeoutError"):
        await asked


async def _ask(reading: Reading, answer: asyncio.Event) -> None:
    async with reading.answered():
        await answer.wait()
