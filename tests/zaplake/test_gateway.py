"""``gateway connect`` and ``gateway check`` against a stand-in Evolution on a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from asgi.types import Receive, Scope, Send
from simulator.api import EVENTS_V1, EVENTS_V2, EvolutionApi
from tests.zaplake.operating import Operator, Said, served
from tests.zaplake.processes import running, text_message

KEY, TOKEN = "an-api-key-of-this-test", "a-token-of-this-test"
COLLECTOR = "http://collector.test:8080"


def environ(url: str, **more: str) -> dict[str, str]:
    return {
        "ZAPLAKE_EVOLUTION_API_URL": url,
        "ZAPLAKE_EVOLUTION_API_KEY": KEY,
        "ZAPLAKE_EVOLUTION_COLLECTOR_URL": COLLECTOR,
        "ZAPLAKE_GATEWAY_TOKENS": TOKEN,
        **more,
    }


class GatewayOperator:
    """Says `zaplake gateway …` and sees no secret in the answer."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    async def gateway(self, *arguments: object, env: Mapping[str, str]) -> Said:
        return await self._operator("gateway", *arguments, env=env, hidden=(KEY, TOKEN))

    async def connect(self, url: str, *more: object, **env: str) -> Said:
        return await self.gateway(
            "connect", "evolution", "--instance", "loja", *more, env=environ(url, **env)
        )


@pytest.fixture
def operator(operator: Operator) -> GatewayOperator:
    return GatewayOperator(operator)


async def test_an_instance_is_connected_read_back_and_left_alone_the_second_time(
    operator: GatewayOperator,
) -> None:
    api = EvolutionApi(key=KEY, instances={"loja": "open"})
    async with served(api) as url:
        dry = await operator.connect(url, "--dry-run")
        assert (dry.code, "nothing was changed" in dry.out) == (0, True), dry
        assert "webhook: none instead of http://collector.test:8080/gateways/evolution/loja" in dry.out
        assert api.webhooks == {}
        done = await operator.connect(url)
        assert (done.code, done.err) == (0, "")
        assert "instance loja of Evolution 2.3.7: open" in done.out
        kept = api.webhooks["loja"]
        assert kept["url"] == f"{COLLECTOR}/gateways/evolution/loja"
        assert kept["headers"] == {"X-Collector-Token": TOKEN}
        assert kept["events"] == list(EVENTS_V2)
        posts = len([method for method, _, _ in api.requests if method == "POST"])
        again = await operator.connect(url, "--json")
        document = json.loads(again.out)
        assert (document["changed"], document["before"], document["after"]) == (False, [], [])
        assert len([method for method, _, _ in api.requests if method == "POST"]) == posts
        kept["webhookBase64"], kept["events"] = True, ["CALL"]
        third = json.loads((await operator.connect(url, "--json")).out)
        assert (third["changed"], [d["what"] for d in third["before"]]) == (True, ["events"])
        assert api.webhooks["loja"]["webhookBase64"] is True, "the operator's choice stays"
        some = await operator.connect(url, "--event", "CALL", "--event", "MESSAGES_UPSERT")
        assert some.code == 0, some
        assert api.webhooks["loja"]["events"] == ["CALL", "MESSAGES_UPSERT"]


async def test_1_8_gets_the_flat_shape_and_the_secret_in_the_path(operator: GatewayOperator) -> None:
    api = EvolutionApi(key=KEY, version="1.8.2", instances={"loja": "open"})
    async with served(api) as url:
        done = await operator.connect(url)
        assert done.code == 0, done
        assert f"webhook {COLLECTOR}/gateways/evolution/***/loja is set" in done.out
        assert api.webhooks["loja"]["url"] == f"{COLLECTOR}/gateways/evolution/{TOKEN}/loja"
        assert api.webhooks["loja"]["events"] == list(EVENTS_V1)
        assert (await operator.gateway("check", env=environ(url))).code == 0


async def test_what_the_gateway_does_not_keep_is_seen_by_reading_back(operator: GatewayOperator) -> None:
    api = EvolutionApi(key=KEY, instances={"loja": "open"}, keeps_headers=False)
    async with served(api) as url:
        done = await operator.connect(url)
        assert done.code == 1
        assert "still not as wanted:\n  header X-Collector-Token: none instead of ***" in done.out


async def test_an_instance_that_is_not_open_is_connected_and_said(operator: GatewayOperator) -> None:
    async with served(EvolutionApi(key=KEY, instances={"loja": "close"})) as url:
        done = await operator.connect(url)
        assert (done.code, "pair it in the gateway's /manager" in done.out) == (1, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": "another"}, "refuses the API key (401), or its database is down"),
        ({"is_database_up": False}, "refuses the API key (401), or its database is down"),
        ({"instances": {}}, 'The "loja" instance does not exist'),
        ({"instances": {"loja": None}}, "known to the gateway but not loaded"),
        ({"is_licensed": False}, "is not activated (503)"),
    ],
)
async def test_each_refusal_of_the_gateway_says_what_to_do(
    operator: GatewayOperator, change: dict[str, Any], said: str
) -> None:
    api = EvolutionApi(**{"key": KEY, "instances": {"loja": "open"}, **change})
    async with served(api) as url:
        done = await operator.connect(url)
        assert (done.code, said in done.err) == (1, True), done.err
        assert len(done.err.splitlines()) == 2
        checked = await operator.gateway("check", env=environ(url))
        assert (checked.code, "WRONG" in checked.out) == (1, True)
        unknown = await operator.connect(url, "--event", "GROUPS_UPDATE")
        assert unknown.code == 1


async def test_an_unknown_event_is_the_gateways_to_refuse(operator: GatewayOperator) -> None:
    async with served(EvolutionApi(key=KEY, instances={"loja": "open"})) as url:
        done = await operator.connect(url, "--event", "GROUPS_UPDATE")
        assert (done.code, "events[0] is not one of enum values" in done.err) == (1, True)


async def stranger(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"<html>"})


async def test_what_is_missing_is_said_before_anything_is_changed(operator: GatewayOperator) -> None:
    api = EvolutionApi(key=KEY, instances={"loja": "open"})
    async with served(api) as url:
        for env, said in (
            ({"ZAPLAKE_GATEWAY_TOKENS": ""}, "ZAPLAKE_GATEWAY_TOKENS"),
            ({"ZAPLAKE_EVOLUTION_API_KEY": ""}, "ZAPLAKE_EVOLUTION_API_KEY"),
            ({"ZAPLAKE_EVOLUTION_COLLECTOR_URL": ""}, "--collector-url"),
            ({"ZAPLAKE_EVOLUTION_COLLECTOR_URL": "collector:8080"}, "no http(s) URL"),
            ({"ZAPLAKE_EVOLUTION_API_URL": ""}, "give --url"),
            ({"ZAPLAKE_EVOLUTION_API_URL": "evolution:8081"}, "no http(s) URL"),
        ):
            kept = {name: value for name, value in environ(url, **env).items() if value}
            done = await operator.gateway("connect", "evolution", "--instance", "loja", env=kept)
            assert (done.code, said in done.err) == (2, True), done.err
        assert (await operator.connect(url, "--gateway", "nobody")).code == 2
        two = [{"name": name, "family": "evolution", "tokens": [TOKEN]} for name in ("a", "b")]
        env = {name: value for name, value in environ(url).items() if name != "ZAPLAKE_GATEWAY_TOKENS"}
        env["ZAPLAKE_GATEWAYS"] = json.dumps(two)
        done = await operator.gateway("check", env=env)
        assert (done.code, "→ name one" in done.out) == (1, True), done.out
        done = await operator.gateway("check", "--gateway", "b", env=env)
        assert "webhook: none instead of http://collector.test:8080/gateways/b/loja" in done.out
        assert api.webhooks == {}
    gone = await operator.connect(url)
    assert (gone.code, "does not answer" in gone.err) == (1, True)
    async with served(stranger) as url:
        done = await operator.connect(url)
        assert (done.code, "is no Evolution API" in done.err) == (1, True)


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://127.0.0.1:x", "http://xn--a", "http://127.0.0.1:99999"]
)
async def test_an_address_that_is_none_is_told_in_two_lines(operator: GatewayOperator, url: str) -> None:
    done = await operator.connect(url)
    assert "unexpected" not in done.err
    assert (done.code, len(done.err.splitlines())) in {(1, 2), (2, 2)}, done.err


async def test_a_key_that_no_header_can_have_is_told_and_not_shown(operator: GatewayOperator) -> None:
    for key in ("a-schlüssel", "two\nlines"):
        done = await operator.connect("http://127.0.0.1:1", ZAPLAKE_EVOLUTION_API_KEY=key)
        assert (done.code, "ZAPLAKE_EVOLUTION_API_KEY" in done.err) == (2, True), done.err
        assert key not in done.err


async def test_check_looks_at_the_expected_instances_or_at_all(operator: GatewayOperator) -> None:
    api = EvolutionApi(key=KEY, instances={"loja": "open", "outra": "connecting"})
    async with served(api) as url:
        assert (await operator.connect(url)).code == 0
        done = await operator.gateway("check", env=environ(url))
        assert done.code == 1
        assert "ok    instance loja: webhook connected to this collector" in done.out
        assert "WRONG instance outra: connecting, nothing arrives from it" in done.out
        assert "→ run: zaplake gateway connect evolution --instance outra" in done.out
        entry = {"name": "evolution", "family": "evolution", "tokens": [TOKEN], "instances": ["loja"]}
        env = {name: value for name, value in environ(url).items() if name != "ZAPLAKE_GATEWAY_TOKENS"}
        env["ZAPLAKE_GATEWAYS"] = json.dumps([entry])
        done = await operator.gateway("check", env=env)
        assert (done.code, "outra" in done.out) == (0, False), done.out


@pytest.mark.parametrize("version", ["2.3.7", "1.8.2"])
async def test_an_event_sent_as_connected_is_taken_by_the_collector(
    operator: GatewayOperator, tmp_path: Path, version: str
) -> None:
    """The URL and headers that were set are used as Evolution uses them."""
    api = EvolutionApi(key=KEY, version=version, instances={"loja": "open"})
    env = {"ZAPLAKE_SIGNING_SECRETS": "a-secret-of-this-test", "ZAPLAKE_GATEWAY_TOKENS": TOKEN}
    options = ("collect", "--json", "--collector-port", 0, "--data-dir", tmp_path / "data")
    async with served(api) as url:
        with running(*options, log=tmp_path / "log", env=env) as collect:
            door = (await asyncio.to_thread(collect.next_line))["collector"]
            done = await operator.connect(url, "--collector-url", door)
            assert done.code == 0, done
            kept = api.webhooks["loja"]
            async with httpx.AsyncClient(trust_env=False) as client:
                sent = await client.post(
                    kept["url"], json=text_message("3EB0CONNECT"), headers=kept.get("headers") or {}
                )
                refused = await client.post(f"{door}/gateways/evolution/loja", json=text_message("3EB0NONE"))
    assert (sent.status_code, refused.status_code) == (200, 503)
