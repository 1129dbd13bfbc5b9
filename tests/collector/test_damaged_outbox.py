"""A collector whose outbox file was damaged: it starts, ships what could be read and tells its operator."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from collector.config import CollectorConfig
from outbox.sqlite import open_sqlite
from outbox.sqlite_file import FILE_NAME
from tests.collector.running import collector_config, eventually, limits, message, running
from tests.collector.scripted import ScriptedBackend
from tests.outbox.records import new


async def test_a_truncated_file_is_told_and_the_service_goes_on(tmp_path: Path) -> None:
    async with ScriptedBackend() as backend:
        config = collector_config(tmp_path, backend.url)
        store = await open_sqlite(config.data_folder)
        await store.put([new(f"kept-{number}", b"{}" * 500) for number in range(40)])
        await store.close()
        path = config.data_folder / FILE_NAME
        path.write_bytes(path.read_bytes()[:-4096])
        async with running(config) as collector:
            response = await collector.post("/gateways/evolution/loja-sp", message(1))
            assert response.status_code == 200

            async def told() -> bool:
                return "outbox.corrupt" in await collector.alerts()

            await eventually(told, "the alert")
            await eventually(lambda: len(backend.stored) > 20, "what could be read is shipped")
            assert len(list(config.data_folder.glob(f"{FILE_NAME}.corrupt-*"))) >= 1


@pytest.mark.parametrize("tree", ["meta", "held"])
async def test_damage_that_is_met_at_the_start_is_told_and_ends_nothing(tmp_path: Path, tree: str) -> None:
    async with ScriptedBackend() as backend:
        config = collector_config(tmp_path, backend.url, limits=limits(housekeeping_s=0.1))
        store = await open_sqlite(config.data_folder)
        await store.hold("storm", new("of an earlier process"))
        await store.close()
        path = config.data_folder / FILE_NAME
        with contextlib.closing(sqlite3.connect(path)) as connection:
            statement = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
            ((page,),) = connection.execute(statement, (tree,)).fetchall()
            ((page_bytes,),) = connection.execute("PRAGMA page_size").fetchall()
        with path.open("r+b") as file:
            file.seek((page - 1) * page_bytes)
            file.write(b"\xee" * page_bytes)
        async with running(config) as collector:

            async def told() -> bool:
                return "outbox.corrupt" in await collector.alerts()

            await eventually(told, "the alert")
            response = await collector.post("/gateways/evolution/loja-sp", message(1))
            assert response.status_code == 200
            await shipped(backend, 1)


async def keep(config: CollectorConfig, key: str, value: bytes) -> None:
    """Put what an earlier process is said to have kept."""
    store = await open_sqlite(config.data_folder)
    await store.set_meta(key, value)
    await store.close()


async def shipped(backend: ScriptedBackend, count: int) -> None:
    await eventually(lambda: len(backend.stored) == count, f"{count} are shipped")


@pytest.mark.parametrize("key", ["accounts", "alerts", "instances", "scopes"])
@pytest.mark.parametrize("value", [b'["\xff', b"[[]]", b'{"a": 1}', b'[["evo", "a", 1]]'])
async def test_a_document_that_cannot_be_read_is_told_and_begins_anew(
    tmp_path: Path, key: str, value: bytes
) -> None:
    async with ScriptedBackend() as backend:
        config = collector_config(tmp_path, backend.url)
        await keep(config, key, value)
        for number in (1, 2):
            async with running(config) as collector:
                if number == 1:
                    active = (await collector.status())["alerts"]["active"]
                    assert [(alert["alert"], alert["subject"]) for alert in active] == [
                        ("outbox.corrupt", key)
                    ]
                response = await collector.post("/gateways/evolution/loja-sp", message(number))
                assert response.status_code == 200
                await shipped(backend, number)


async def test_instances_that_can_be_read_in_a_damaged_table_keep_their_scopes(tmp_path: Path) -> None:
    """Also one whose name no decoder takes, beside a row that lost its end and one with a flipped bit."""
    rows = [("evolution", name, f"matriz/{name}") for name in ("loja-rj", "loja-mg", "loja-sp", "\ud800")]
    kept = json.dumps(rows).encode()
    kept = kept.replace(b'matriz/loja-rj"', b"matriz/loja-rj\xa2").replace(
        b"matriz/loja-mg", b"matriz/\xecoja-mg"
    )
    async with ScriptedBackend() as backend:
        config = collector_config(tmp_path, backend.url)
        await keep(config, "scopes", kept)
        async with running(config) as collector:
            (alert,) = [
                alert
                for alert in (await collector.status())["alerts"]["active"]
                if alert["alert"] == "outbox.corrupt"
            ]
            assert alert["detail"].startswith("the scopes of 2 instances could be read")
            for number, instance in enumerate(("loja-sp", "loja-mg")):
                await collector.post(f"/gateways/evolution/{instance}", message(number, instance))
            await shipped(backend, 2)
        scopes = {event["scope"] for event in map(json.loads, backend.stored.values())}
        assert scopes == {"matriz/loja-sp", "evolution/loja-mg"}
