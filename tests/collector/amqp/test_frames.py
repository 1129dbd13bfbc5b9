"""What a publisher writes beside the body, and the client library cannot decode, harms no message."""

from __future__ import annotations

from pathlib import Path

import aio_pika
import pamqp.encode
import pamqp.frame
import pytest
from pamqp import commands, header

from collector.amqp_frames import mended
from tests.collector.amqp.test_door import NO_BACKEND, consuming, counted, reaches, settled
from tests.collector.running import collector_config, limits, message, running
from tests.support.rabbit import Rabbit

LATIN = "caf\xe9.upsert"
"""Written as Latin-1, this is no UTF-8."""
MANY_YEARS = b"\x7f" * 8


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The publisher's library encodes as others do that look at nothing."""
    usual = pamqp.encode.METHODS["shortstr"]

    def short(value: str) -> bytes:
        return bytes([len(value)]) + value.encode("latin-1") if value == LATIN else usual(value)

    monkeypatch.setitem(pamqp.encode.METHODS, "shortstr", short)
    monkeypatch.setitem(pamqp.encode.METHODS, "timestamp", lambda _value: MANY_YEARS)


@pytest.mark.usefixtures("careless")
@pytest.mark.parametrize("unreadable", ["type", "time", "routing key"])
async def test_a_message_with_what_cannot_be_decoded_is_a_row_like_its_neighbours(
    tmp_path: Path, rabbit: Rabbit, unreadable: str
) -> None:
    quick = limits(amqp_reconnect_s_max=0.5)
    config = collector_config(tmp_path, NO_BACKEND, amqp=(rabbit.config(),), limits=quick)
    odd = aio_pika.Message(
        message(2, rabbit.instance),
        content_type=LATIN if unreadable == "type" else None,
        timestamp=1 if unreadable == "time" else None,
    )
    async with running(config) as collector:
        await consuming(collector)
        await rabbit.publish(message(1, rabbit.instance))
        async with rabbit.channel() as channel:
            exchange = await channel.declare_exchange(rabbit.instance, "topic", durable=True)
            await exchange.publish(
                odd, LATIN if unreadable == "routing key" else "messages.upsert", mandatory=False
            )
        await rabbit.publish(message(3, rabbit.instance))
        await counted(collector, stored=3)
        await reaches(collector, "all in one", settled(connects=1, acked=3, redelivered=0, refused=0))


@pytest.mark.usefixtures("careless")
def test_only_what_cannot_be_decoded_is_blanked() -> None:
    good = commands.Basic.Properties(content_type="application/json", message_id="m-1")
    frame = _frame(header.ContentHeader(body_size=7, properties=good))
    assert mended(frame) == frame
    odd = commands.Basic.Properties(content_type=LATIN, message_id="m-1")
    _, channel, read = pamqp.frame.unmarshal(mended(_frame(header.ContentHeader(0, 7, odd))))
    assert channel == 3
    assert isinstance(read, header.ContentHeader)
    assert (read.body_size, read.properties) == (7, commands.Basic.Properties())


@pytest.mark.usefixtures("careless")
def test_names_of_a_delivery_are_kept_as_far_as_they_are_plain() -> None:
    odd = commands.Basic.Deliver("our-tag", 7, redelivered=True, exchange="loja", routing_key=LATIN)
    _, _, read = pamqp.frame.unmarshal(mended(_frame(odd)))
    assert isinstance(read, commands.Basic.Deliver)
    assert (read.consumer_tag, read.delivery_tag, read.redelivered) == ("our-tag", 7, True)
    assert (read.exchange, read.routing_key) == ("loja", "caf?.upsert")


def _frame(value: pamqp.frame.FrameTypes) -> bytes:
    return pamqp.frame.marshal(value, 3)
