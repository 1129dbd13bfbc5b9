"""Which gateway's RabbitMQ is read, and with whose URL; a password is in no message."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.amqp_config import AmqpConfig
from zaplake.sources import load_settings
from zaplake.trouble import UsageTrouble
from zaplake.wiring import collector_config

URL = "amqp://collector:a-long-password@broker.example:5671/vhost"


def brokers(environ: dict[str, str], config: Path | None = None) -> tuple[AmqpConfig, ...]:
    return collector_config(load_settings(config, environ), secrets=(b"s",)).amqp


def test_without_a_url_no_broker_is_read() -> None:
    assert brokers({}) == ()


def test_amqp_url_alone_is_the_default_gateways() -> None:
    (broker,) = brokers({"AMQP_URL": URL})
    assert (broker.gateway, broker.url, broker.exchanges) == ("evolution", URL, ("evolution_exchange",))
    assert broker.drain_gateway_queues
    assert broker.own_queue("here") == "zaplake.here.evolution"


def test_everything_has_a_variable() -> None:
    (broker,) = brokers(
        {
            "AMQP_URL": URL,
            "ZAPLAKE_AMQP_INSTANCES": "loja-sp,loja-rj",
            "ZAPLAKE_AMQP_GLOBAL_EXCHANGE": "",
            "ZAPLAKE_AMQP_PREFIX": "evo",
            "ZAPLAKE_AMQP_QUEUE": "mine",
            "ZAPLAKE_AMQP_PREFETCH": "7",
            "ZAPLAKE_AMQP_DRAIN_GATEWAY_QUEUES": "false",
        }
    )
    assert broker == AmqpConfig(
        gateway="evolution",
        url=URL,
        instances=("loja-sp", "loja-rj"),
        global_exchange="",
        prefix="evo",
        queue="mine",
        prefetch=7,
        drain_gateway_queues=False,
    )


def test_gateways_have_sections_of_their_own(tmp_path: Path) -> None:
    secret = tmp_path / "amqp"
    secret.write_text(f"{URL}\n")
    toml = tmp_path / "zaplake.toml"
    toml.write_text(
        f"""
        [[gateways]]
        name = "one"
        family = "evolution"
        instances = ["loja"]
        [gateways.amqp]
        [[gateways]]
        name = "two"
        family = "evolution"
        [gateways.amqp]
        url_file = "{secret}"
        instances = ["filial"]
        [[gateways]]
        name = "three"
        family = "evolution"
        """
    )
    one, two = brokers({"AMQP_URL": "amqp://shared.example"}, toml)
    assert (one.gateway, one.url, one.instances) == ("one", "amqp://shared.example", ("loja",))
    assert (two.gateway, two.url, two.instances) == ("two", URL, ("filial",))


@pytest.mark.parametrize(
    ("environ", "toml", "said"),
    [
        ({"AMQP_URL": "https://broker.example"}, "", "amqp://user:password@host"),
        ({"AMQP_URL": "amqp://collector:a-long-password/x@broker.example"}, "", "percent-encoded"),
        ({"AMQP_URL": URL, "ZAPLAKE_AMQP_PREFETCH": "0"}, "", "prefetch"),
        ({"AMQP_URL": URL, "ZAPLAKE_AMQP_GLOBAL_EXCHANGE": ""}, "", "nothing would arrive"),
        ({"AMQP_URL": URL, "ZAPLAKE_AMQP_QUEUE": "amq.mine"}, "", "the broker's own"),
        ({"AMQP_URL": URL, "ZAPLAKE_AMQP_INSTANCES": "x" * 300}, "", "200 bytes"),
        ({}, '[[gateways]]\nname="a"\nfamily="evolution"\n[gateways.amqp]', "without a URL"),
        ({"AMQP_URL": URL}, '[[gateways]]\nname="a"\nfamily="waha"\n[gateways.amqp]', "family evolution"),
        (
            {"ZAPLAKE_AMQP_INSTANCES": "loja"},
            '[[gateways]]\nname="a"\nfamily="evolution"',
            "belongs to the default gateway",
        ),
        ({"ZAPLAKE_AMQP_URL_FILE": "/nowhere/amqp"}, "", "cannot read the RabbitMQ URL"),
    ],
)
def test_what_is_wrong_is_named_without_the_password(
    tmp_path: Path, environ: dict[str, str], toml: str, said: str
) -> None:
    path = tmp_path / "zaplake.toml"
    path.write_text(toml)
    with pytest.raises(UsageTrouble) as raised:
        brokers(environ, path)
    shown = f"{raised.value.what} {raised.value.next_step}"
    assert said in shown
    assert "a-long-password" not in shown
