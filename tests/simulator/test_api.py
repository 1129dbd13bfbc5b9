"""The stand-in answers as Evolution 2.3.7 did when it was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.api import EvolutionApi

FIXTURES = Path(__file__).parent / "fixtures" / "rest"
VOLATILE = {"id", "createdAt", "updatedAt", "instanceId"}


def without_volatile(body: Any) -> Any:
    if isinstance(body, dict):
        return {name: value for name, value in body.items() if name not in VOLATILE}
    return body


def client(api: EvolutionApi) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://evolution")


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.json")), ids=lambda path: path.stem)
async def test_it_answers_as_recorded(path: Path) -> None:
    recorded = json.loads(path.read_text())
    request = recorded["request"]
    instances = {"evob": "open", "evo1": "open", "wother": "open"}
    api = EvolutionApi(key=request["apikey"], instances={**instances, "ghost": None})
    if path.stem == "b-webhook-set-all":  # headers that a body does not name stay as they were
        api.webhooks["evob"] = {"headers": recorded["body"]["headers"]}
    if request["path"].startswith("/instance/fetchInstances"):
        del api.instances["ghost"]
    async with client(api) as evolution:
        answer = await evolution.request(
            request["method"], request["path"], json=request["body"], headers={"apikey": request["apikey"]}
        )
    assert answer.status_code == recorded["status"]
    assert without_volatile(answer.json()) == without_volatile(recorded["body"])


async def test_the_instance_is_looked_for_before_the_key() -> None:
    api = EvolutionApi(key="right", instances={"a": None})
    async with client(api) as evolution:
        wrong = {"apikey": "wrong"}
        assert (await evolution.get("/instance/connectionState/nope", headers=wrong)).status_code == 404
        refused = await evolution.get("/instance/connectionState/a", headers=wrong)
        assert refused.json() == {
            "status": 401,
            "error": "Unauthorized",
            "response": {"message": "Unauthorized"},
        }
        loaded = await evolution.get("/instance/connectionState/a", headers={"apikey": "right"})
        assert loaded.json() == {"instance": {"instanceName": "a"}}


async def test_1_8_takes_a_flat_body_and_knows_no_headers() -> None:
    api = EvolutionApi(key="k", version="1.8.2", instances={"a": "open"})
    async with client(api) as evolution:
        nested = {"webhook": {"url": "http://c", "enabled": True, "events": []}}
        refused = await evolution.post("/webhook/set/a", json=nested, headers={"apikey": "k"})
        assert refused.status_code == 400
        flat = {"url": "http://c", "enabled": True, "events": [], "headers": {"X": "y"}}
        assert (await evolution.post("/webhook/set/a", json=flat, headers={"apikey": "k"})).status_code == 201
        found = (await evolution.get("/webhook/find/a", headers={"apikey": "k"})).json()
    assert len(found["events"]) == 24
    assert "headers" not in found
