"""``collector refill`` against a stand-in Evolution: what the doors missed comes in, nothing twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asgi.types import Receive, Scope, Send
from outbox.sqlite import open_sqlite
from simulator.api import EvolutionApi
from tests.collector.running import collector_config, message, running
from tests.zaplake.operating import Operator, Said, served
from zaplake.refill import PAGE_RECORDS, is_wanted

KEY = "an-api-key-of-this-test"
FIRST_S = 1764950400
"""When the message of number 0 was sent (tests.collector.running)."""


def stored(*numbers: int) -> list[dict[str, Any]]:
    """Messages as Evolution's store has them."""
    records = []
    for number in numbers:
        data = json.loads(message(number))["data"]
        more = {
            "id": f"cm{number}",
            "instanceId": "i",
            "source": "web",
            "MessageUpdate": [{"status": "READ"}],
        }
        records.append({**data, **more})
    return records


def since(number: int) -> str:
    return (datetime.fromtimestamp(FIRST_S + number, UTC) + timedelta(minutes=10)).isoformat()


class Refilling:
    def __init__(self, operator: Operator, url: str, data_dir: Path) -> None:
        self._operator, self._url, self._data_dir = operator, url, data_dir

    async def __call__(self, *arguments: object, **env: str) -> Said:
        environment: Mapping[str, str] = {
            "ZAPLAKE_EVOLUTION_API_URL": self._url,
            "ZAPLAKE_EVOLUTION_API_KEY": KEY,
            **env,
        }
        command = ("collector", "refill", "--instance", "loja-sp", "--data-dir", self._data_dir)
        return await self._operator(*command, *arguments, env=environment, hidden=(KEY, "5511900000001"))


async def test_what_a_living_collector_missed_comes_in_and_nothing_twice(
    operator: Operator, tmp_path: Path
) -> None:
    count = 2 * PAGE_RECORDS + 30
    api = EvolutionApi(key=KEY, instances={"loja-sp": "open"}, messages={"loja-sp": stored(*range(count))})
    config = collector_config(tmp_path, "http://127.0.0.1:9", data_folder=tmp_path / "data" / "outbox")
    async with served(api) as url, running(config) as collector:
        refill = Refilling(operator, url, tmp_path / "data")
        for number in range(0, count, 2):
            await collector.post("/gateways/evolution/loja-sp", message(number))
        assert (await collector.outbox())["waiting"] == count // 2
        dry = await refill("--since", since(0), "--dry-run")
        assert (dry.code, dry.out) == (0, f"the gateway has {count} messages since then; nothing was taken\n")
        assert (await collector.outbox())["waiting"] == count // 2
        done = await refill("--since", since(0), "--json")
        assert done.code == 0, done
        told = json.loads(done.out)
        assert told["counts"] == {"duplicate": count // 2, "stored": count // 2}
        assert (told["found"], told["pages"], told["is_complete"]) == (count, 3, True)
        again = await refill("--since", since(0))
        assert again.out == f"{count} messages: duplicate {count}\n"
        assert (await collector.outbox())["waiting"] == count
    store = await open_sqlite(tmp_path / "data" / "outbox")
    (record, *_) = await store.claim(now=datetime.now(UTC), limit=count, bytes_max=2**30)
    channels = {each.channel for each in await store.sightings(record.id)}
    await store.close()
    assert channels == {"webhook", "refill"}


async def test_only_what_is_new_enough_is_taken_and_old_pages_end_it(
    operator: Operator, tmp_path: Path
) -> None:
    old = [
        {**record, "messageTimestamp": FIRST_S - 86_400 - n} for n, record in enumerate(stored(*range(600)))
    ]
    for n, record in enumerate(old):
        record["key"] = {**record["key"], "id": f"OLD{n}"}
    api = EvolutionApi(key=KEY, instances={"loja-sp": "open"}, messages={"loja-sp": [*old, *stored(1, 2, 3)]})
    async with served(api) as url:
        said = await Refilling(operator, url, tmp_path / "data")("--since", since(2))
    assert said.out.startswith("2 messages: stored 2\n"), said
    assert "they wait in" in said.out or said.code == 0
    assert len([path for _, path, _ in api.requests if "findMessages" in path]) == 3


async def test_an_interrupted_refill_says_where_to_go_on(operator: Operator, tmp_path: Path) -> None:
    records = stored(*range(250))
    api = EvolutionApi(key=KEY, instances={"loja-sp": "open"}, messages={"loja-sp": records})
    async with served(api) as url:
        refill = Refilling(operator, url, tmp_path / "data")
        part = await refill("--since", since(0), "--pages-max", "2")
        assert (part.code, "go on with --page 3" in part.out) == (1, True), part
        rest = await refill("--since", since(0), "--page", "3")
        assert (rest.code, rest.out) == (0, "50 messages: stored 50\n")


async def test_a_page_that_no_reader_of_json_stands_does_not_lose_the_place(
    operator: Operator, tmp_path: Path
) -> None:
    api = EvolutionApi(key=KEY, instances={"loja-sp": "open"}, messages={"loja-sp": stored(*range(150))})

    async def odd_from_page_2_on(scope: Scope, receive: Receive, send: Send) -> None:
        if sum("findMessages" in path for _, path, _ in api.requests) < 1:
            await api(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"[" * 200_000})

    async with served(odd_from_page_2_on) as url:
        part = await Refilling(operator, url, tmp_path / "data")("--since", since(0))
    assert part.code == 1
    assert "page 2: what answers at" in part.err
    assert "go on with --page 2" in part.err


async def test_what_is_wrong_is_told(operator: Operator, tmp_path: Path) -> None:
    api = EvolutionApi(key=KEY, instances={"loja-sp": "open"})
    async with served(api) as url:
        refill = Refilling(operator, url, tmp_path / "data")
        assert (await refill("--since", "yesterday")).code == 2
        assert (await refill("--since", since(0), "--page", "0")).code == 2
        wrong = await refill("--since", since(0), ZAPLAKE_EVOLUTION_API_KEY="another-key-of-this-test")
        assert (wrong.code, "401" in wrong.err) == (1, True), wrong
        nothing = await refill("--since", since(0))
        assert (nothing.code, nothing.out) == (0, "0 messages: nothing new\n")


@pytest.mark.parametrize(
    ("at_s", "wanted"),
    [
        (FIRST_S, True),
        (str(FIRST_S), True),
        (FIRST_S - 1, False),
        (None, True),
        ("soon", True),
        (1e300, True),
    ],
)
def test_a_message_is_wanted_from_that_second_on(at_s: object, wanted: bool) -> None:
    assert is_wanted({"messageTimestamp": at_s}, datetime.fromtimestamp(FIRST_S, UTC)) is wanted


@given(st.dictionaries(st.just("messageTimestamp"), st.none() | st.floats() | st.text() | st.integers()))
def test_no_record_makes_it_fail(record: dict[str, Any]) -> None:
    is_wanted(record, datetime.fromtimestamp(FIRST_S, UTC))
