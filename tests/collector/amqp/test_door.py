"""From a real broker to rows in a real outbox: commit before acknowledge, and one identity for two doors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.amqp_config import DLQ, RETURNED
from contracts import translation
from contracts.events import Reading
from contracts.gateways import READERS
from outbox.clock import SystemClock
from outbox.metering import MeteredStore
from outbox.record import NewRecord, PutResult
from outbox.sqlite import open_sqlite
from outbox.store import Store, StoreFull, StoreUnavailable
from tests.collector.running import Running, collector_config, eventually, fixture, limits, message, running
from tests.support.rabbit import Rabbit

NO_BACKEND = "http://127.0.0.1:9"


async def broker_of(collector: Running) -> dict[str, Any]:
    (broker,) = (await collector.status())["rabbitmq"]
    assert isinstance(broker, dict)
    return broker


async def reaches(collector: Running, what: str, holds: Callable[[dict[str, Any]], bool]) -> None:
    """Waits for a state of the door."""

    async def there() -> bool:
        return holds(await broker_of(collector))

    await eventually(there, what)


def settled(**wanted: int) -> Callable[[dict[str, Any]], bool]:
    return lambda broker: {name: broker[name] for name in wanted} == wanted


async def consuming(collector: Running) -> None:
    await reaches(collector, "the door consumes", lambda broker: bool(broker["consuming"]))


async def counted(collector: Running, **wanted: int) -> None:
    async def there() -> bool:
        totals = await collector.totals()
        return {name: totals.get(name, 0) for name in wanted} == wanted

    await eventually(there, f"totals of {wanted}")


async def raised(collector: Running, alert: str) -> None:
    async def there() -> bool:
        return alert in await collector.alerts()

    await eventually(there, f"{alert} lasts")


async def over(collector: Running, alert: str) -> None:
    async def gone() -> bool:
        return alert not in await collector.alerts()

    await eventually(gone, f"{alert} is over")


async def test_a_message_is_a_row_and_then_acknowledged(tmp_path: Path, rabbit: Rabbit) -> None:
    async with running(collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),))) as collector:
        await consuming(collector)
        await rabbit.publish(message(1, rabbit.instance))
        await counted(collector, stored=1)
        await reaches(collector, "it is acknowledged", lambda broker: broker["acked"] == 1)
        assert await rabbit.waiting(rabbit.queue) == 0


async def test_what_was_published_before_the_gateways_queue_exists_is_not_missed(
    tmp_path: Path, rabbit: Rabbit
) -> None:
    """Evolution publishes the first event of each type before it has bound a queue."""
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),))
    async with running(config) as collector:
        await consuming(collector)
    await rabbit.publish(message(1, rabbit.instance))
    await rabbit.publish(message(2, rabbit.instance), exchange=rabbit.exchange)
    async with running(config) as collector:
        await counted(collector, stored=2)


async def test_an_event_by_both_doors_is_one_record_that_both_channels_brought(
    tmp_path: Path, rabbit: Rabbit
) -> None:
    store: list[MeteredStore] = []

    async def open_store() -> MeteredStore:
        store.append(await open_sqlite(tmp_path / "collector", SystemClock()))
        return store[0]

    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),))
    webhook = json.loads(message(1, rabbit.instance))
    webhook["destination"] = "https://collector.example/gateways/evolution"
    async with running(config, open_store) as collector:
        await consuming(collector)
        await rabbit.publish(message(1, rabbit.instance))
        await counted(collector, stored=1)
        assert (await collector.post("/gateways/evolution", json.dumps(webhook).encode())).status_code == 200
        await counted(collector, stored=1, duplicate=1)
        (record,) = await store[0].kept("waiting", after=0, limit=10, bytes_max=2**20)
        assert {sighting.channel for sighting in await store[0].sightings(record.id)} == {
            "rabbitmq",
            "webhook",
        }


async def test_what_is_no_json_is_kept_in_our_dead_letter_queue_with_the_reason(
    tmp_path: Path, rabbit: Rabbit
) -> None:
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=limits(amqp_watch_s=0.05))
    async with running(config) as collector:
        await consuming(collector)
        await rabbit.publish(b"not json", message(1, rabbit.instance), b"", event="odd.event")
        await counted(collector, stored=1)
        await reaches(
            collector, "both are refused", lambda broker: (broker["refused"], broker["acked"]) == (2, 3)
        )
        assert await rabbit.waiting(rabbit.queue) == 0
        assert await rabbit.waiting(rabbit.queue + DLQ) == 2
        assert "amqp.dlq" in await collector.alerts()
        kept = await rabbit.fetch(rabbit.queue + DLQ)
        assert kept is not None
        assert kept.body == b"not json"
        assert str(kept.headers["x-zaplake-reason"]).startswith("not JSON")
        assert kept.headers["x-zaplake-routing-key"] == "odd.event"
        await rabbit.fetch(rabbit.queue + DLQ)

        async def resolved() -> bool:
            return "amqp.dlq" not in await collector.alerts()

        await eventually(resolved, "the alert ends when the queue is empty")


async def test_a_refused_message_is_not_acknowledged_while_its_queue_is_missing(
    tmp_path: Path, rabbit: Rabbit
) -> None:
    async with running(collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),))) as collector:
        await consuming(collector)
        await rabbit.delete(rabbit.queue + DLQ)
        await rabbit.publish(b"not json")
        await reaches(collector, "it is refused", lambda broker: broker["refused"] == 1)
        assert await rabbit.waiting(rabbit.queue + DLQ) == 1


async def test_a_message_above_the_limit_is_refused(tmp_path: Path, rabbit: Rabbit) -> None:
    config = collector_config(
        tmp_path,
        NO_BACKEND,
        amqp=(rabbit.config(),),
        limits=limits(body_bytes_max=1000, bodies_in_flight_bytes_max=1000),
    )
    async with running(config) as collector:
        await consuming(collector)
        await rabbit.publish(message(1, rabbit.instance, more="x" * 1000))
        await reaches(collector, "it is refused", lambda broker: broker["refused"] == 1)


async def test_what_its_reader_fails_on_is_stored_as_unknown_with_the_error(
    tmp_path: Path, rabbit: Rabbit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(body: object, *, path_instance: str | None = None) -> Reading:
        raise KeyError("a fault of the reader")

    monkeypatch.setitem(READERS, "evolution", failing)
    async with running(collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),))) as collector:
        await consuming(collector)
        await rabbit.publish(message(1, rabbit.instance))
        await counted(collector, stored=1, reader_error=1)


async def test_one_that_cannot_be_captured_harms_no_neighbour(
    tmp_path: Path, rabbit: Rabbit, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = translation.source_of

    def failing(arrival: translation.Arrival, named: str | None) -> Any:
        if b"pedido 3" in arrival.raw:
            raise ZeroDivisionError
        return usual(arrival, named)

    monkeypatch.setattr(translation, "source_of", failing)
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),))
    async with running(config):
        pass
    await rabbit.publish(*(message(number, rabbit.instance) for number in range(1, 6)))
    async with running(config) as collector:
        await counted(collector, stored=4)
        await reaches(
            collector, "one is refused", lambda broker: (broker["refused"], broker["acked"]) == (1, 5)
        )
        kept = await rabbit.fetch(rabbit.queue + DLQ)
        assert kept is not None
        assert b"pedido 3" in kept.body


class Troubled:
    """A store that passes everything on, but puts nothing while ``trouble`` is set."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.trouble: type[StoreUnavailable] | None = StoreUnavailable
        self.puts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put(self, records: Sequence[NewRecord]) -> list[PutResult]:
        self.puts += 1
        if self.trouble is not None:
            raise self.trouble("for now")
        return await self._store.put(records)


def opening(
    folder: Path, stores: list[Troubled], trouble: type[StoreUnavailable] = StoreUnavailable
) -> Callable[[], Awaitable[MeteredStore]]:
    """Opens the collector's store as one in trouble, which is then in ``stores``."""

    async def open_store() -> MeteredStore:
        stores.append(Troubled(await open_sqlite(folder / "collector", SystemClock())))
        stores[0].trouble = trouble
        return stores[0]

    return open_store


@pytest.mark.parametrize("trouble", [StoreUnavailable, StoreFull])
async def test_while_the_outbox_is_in_trouble_nothing_is_acknowledged_nor_handed_back(
    tmp_path: Path, rabbit: Rabbit, trouble: type[StoreUnavailable]
) -> None:
    stores: list[Troubled] = []
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(prefetch=5),))
    async with running(config, opening(tmp_path, stores, trouble)) as collector:
        await consuming(collector)
        await rabbit.publish(*(message(number, rabbit.instance) for number in range(20)))
        await eventually(lambda: stores[0].puts >= 2, "it was tried again")
        broker = await broker_of(collector)
        assert (broker["received"], broker["redelivered"], broker["acked"]) == (5, 0, 0)
        assert broker["trouble"] is not None
        assert ("outbox.full" in await collector.alerts()) is (trouble is StoreFull)
        stores[0].trouble = None
        await counted(collector, stored=20)
        broker = await broker_of(collector)
        assert (broker["received"], broker["redelivered"], broker["trouble"]) == (20, 0, None)


async def test_trouble_that_lasts_hands_the_messages_back_and_takes_them_again_later(
    tmp_path: Path, rabbit: Rabbit
) -> None:
    stores: list[Troubled] = []
    config = collector_config(
        tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=limits(amqp_hold_s_max=0.1)
    )
    async with running(config, opening(tmp_path, stores)) as collector:
        await consuming(collector)
        await rabbit.publish(message(1, rabbit.instance))
        await reaches(collector, "it is handed back", lambda broker: not broker["consuming"])
        stores[0].trouble = None
        await counted(collector, stored=1)


async def test_all_recorded_bodies_become_rows(tmp_path: Path, rabbit: Rabbit) -> None:
    body = json.loads(fixture("evolution/rabbitmq-messages.update-read.json"))
    body["instance"] = rabbit.instance
    async with running(collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),))) as collector:
        await consuming(collector)
        await rabbit.publish(json.dumps(body).encode(), event="messages.update")
        await counted(collector, stored=1)
        tally = (await collector.status())["instances"]
        assert [seen["instance"] for seen in tally] == [rabbit.instance]


async def test_the_password_is_shown_nowhere_and_cut_out_of_bodies(tmp_path: Path, rabbit: Rabbit) -> None:
    amqp = rabbit.config(url="amqp://collector:hidden-broker-word@127.0.0.1:1/")
    config = collector_config(
        tmp_path, NO_BACKEND, amqp=(amqp,), limits=limits(amqp_disconnected_alert_s=0.01)
    )
    assert "hidden-broker-word" not in repr(config)
    assert "hidden-broker-word" in config.cut_values
    async with running(config) as collector:

        async def alerted() -> bool:
            return "amqp.disconnected" in await collector.alerts()

        await eventually(alerted, "nobody listens there")
        assert "hidden-broker-word" not in json.dumps(await collector.status())


async def test_the_gateways_own_queues_are_emptied_unless_somebody_else_reads_them(
    tmp_path: Path, rabbit: Rabbit
) -> None:
    drained = await rabbit.declare_as_gateway("messages.upsert")
    theirs = await rabbit.declare_as_gateway("messages.update")
    await rabbit.publish(message(1, rabbit.instance))
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),))
    async with rabbit.read_by_others(theirs), running(config) as collector:
        await reaches(collector, "one is emptied", settled(drained=1))
        await counted(collector, stored=1)
        await rabbit.publish(message(2, rabbit.instance))
        await counted(collector, stored=2, duplicate=1)
        assert await rabbit.consumers(theirs) == 1
        await rabbit.delete(drained)
        await reaches(collector, "it is gone", settled(drained=0, consuming=True))
        await rabbit.publish(message(3, rabbit.instance))
        await counted(collector, stored=3)


async def test_stopping_ends_the_consumer_and_leaves_the_rest_in_the_queue(
    tmp_path: Path, rabbit: Rabbit
) -> None:
    async with running(collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),))) as collector:
        await consuming(collector)
    assert await rabbit.consumers(rabbit.queue) == 0
    await rabbit.publish(message(1, rabbit.instance))
    async with asyncio.timeout(10):
        while await rabbit.waiting(rabbit.queue) != 1:
            await asyncio.sleep(0.01)
    assert await rabbit.waiting(rabbit.queue + RETURNED) == 0


async def test_one_door_that_falls_silent_is_told(tmp_path: Path, rabbit: Rabbit) -> None:
    config = collector_config(
        tmp_path,
        NO_BACKEND,
        amqp=(rabbit.config(),),
        limits=limits(channel_silent_s=0.001, housekeeping_s=0.05),
    )
    async with running(config) as collector:
        await consuming(collector)
        for number in range(10):
            body = message(number, rabbit.instance)
            assert (await collector.post("/gateways/evolution", body)).status_code == 200
        await raised(collector, "channel.silent")
        await rabbit.publish(message(1, rabbit.instance))
        await counted(collector, duplicate=1)
        await over(collector, "channel.silent")


async def test_no_more_bytes_are_held_than_the_door_may_hold(tmp_path: Path, rabbit: Rabbit) -> None:
    stores: list[Troubled] = []
    tight = limits(body_bytes_max=300_000, bodies_in_flight_bytes_max=1_000_000, amqp_watch_s=0.05)
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=tight)
    async with running(config, opening(tmp_path, stores)) as collector:
        await consuming(collector)
        bodies = [message(number, rabbit.instance, more="x" * 250_000) for number in range(20)]
        await rabbit.publish(*bodies)
        await reaches(collector, "it reads no further", settled(paused=True))
        await eventually(lambda: stores[0].puts >= 2, "it was tried again")
        assert (await broker_of(collector))["received"] <= 6
        stores[0].trouble = None
        await counted(collector, stored=20)
        broker = await broker_of(collector)
        assert (broker["connects"], broker["redelivered"], broker["paused"]) == (1, 0, False)
