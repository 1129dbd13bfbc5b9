"""What would lose events or open a door by mistake is refused when the collector starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from collector.config import CollectorConfig, Limits
from contracts.configured import CaptureFilter, ChatClass, ConfigError, Family, GatewayConfig


def config(**changes: Any) -> CollectorConfig:
    values: dict[str, Any] = {
        "backend_url": "http://127.0.0.1:8000",
        "secrets": (b"signing-secret",),
        "data_folder": Path("unused"),
    }
    return CollectorConfig(**{**values, **changes})


def test_without_gateways_there_are_four_open_to_loopback() -> None:
    gateways = config().gateways
    assert [gateway.name for gateway in gateways] == ["evolution", "baileys", "waha", "cloudapi"]
    assert not any(gateway.has_credentials for gateway in gateways)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"secrets": ()}, "secrets"),
        ({"secrets": (b"good-secret", b"")}, "secrets"),
        ({"backend_url": "ftp://host"}, "backend_url"),
        ({"backend_url": "127.0.0.1:8000"}, "backend_url"),
        ({"backend_url": "http://[::1"}, "backend_url"),
        ({"backend_url": "http://host:70000"}, "backend_url"),
        ({"backend_url": "http://host:port"}, "backend_url"),
        ({"name": ""}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "loja são"}, "name"),
        ({"name": "a#b"}, "name"),
        ({"backend_url": "http://user:password@host"}, "backend_url"),
        ({"gateways": ()}, "gateways"),
        ({"port": 70_000}, "port"),
        ({"heartbeat_s": 0}, "heartbeat_s"),
        ({"accounts": {("nobody", "x"): "loja"}}, "accounts"),
        ({"accounts": {("evolution", "x"): ""}}, "accounts"),
    ],
)
def test_refused_settings_are_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        config(**changes)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"drain_s": 15.0}, "drain_s"),
        ({"bodies_in_flight_bytes_max": 1024}, "bodies_in_flight_bytes_max"),
        ({"body_with_media_bytes_max": 1024}, "body_with_media_bytes_max"),
        ({"media_in_flight_bytes_max": 1024}, "media_in_flight_bytes_max"),
        ({"media_bytes_min": 1024}, "media_bytes_min"),
        ({"batch_records_max": 0}, "batch_records_max"),
        ({"stop_grace_s": -1.0}, "stop_grace_s"),
    ],
)
def test_dangerous_limits_are_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Limits(**changes)


def test_two_gateways_of_one_name_are_refused() -> None:
    twice = GatewayConfig(name="evo", family="evolution")
    with pytest.raises(ConfigError, match="two of one name"):
        config(gateways=(twice, twice))


@pytest.mark.parametrize(
    "values", [{"tokens": ("short",)}, {"hmac_keys": ("",)}, {"verify_token": "1234567"}, {"name": "a/b"}]
)
def test_guessable_secrets_and_odd_names_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        GatewayConfig(**{"name": "evo", "family": "evolution", **values})


def test_unknown_family_kind_and_chat_class_are_refused() -> None:
    with pytest.raises(ConfigError, match="family"):
        GatewayConfig(name="x", family=cast(Family, "signal"))
    with pytest.raises(ConfigError, match="chat class"):
        CaptureFilter(chat_classes=frozenset({cast(ChatClass, "crowd")}))
    with pytest.raises(ConfigError, match="unknown kind"):
        CaptureFilter(kinds=frozenset({"mesage"}))  # allowed alone, it would drop every event


def test_every_secret_is_cut_from_bodies_and_short_ones_never_cut_words() -> None:
    gateway = GatewayConfig(
        name="g", family="waha", tokens=("token-token",), hmac_keys=("hmac-hmac",), verify_token="verify-it"
    )
    built = config(gateways=(gateway,), secrets=(b"signing-secret", b"short"))
    assert set(built.cut_values) == {"token-token", "hmac-hmac", "verify-it", "signing-secret"}
