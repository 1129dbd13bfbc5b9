"""No secret is written anywhere: not to the file, not over the wire, not to a log."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import structlog

from contracts.jsontext import decode
from tests.collector.running import FIXTURES, collector_config, eventually, fixture, gateway, message, running
from tests.collector.scripted import SECRET, ScriptedBackend

TOKEN = "token-of-the-tests"


def known_secrets() -> list[str]:
    """Strings of the SECRET fixtures that may be nowhere, written by hand beside them."""
    table = tomllib.loads((FIXTURES.parent / "secrets.toml").read_text())
    return sorted(set(strings(table)))


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in strings(item)]


def on_disk(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


async def test_no_secret_of_any_known_body_is_written_or_sent(tmp_path: Path) -> None:
    secrets = [secret for secret in known_secrets() if len(secret) >= 8]
    assert len(secrets) > 5
    files = sorted(FIXTURES.rglob("*SECRET*.json"))
    assert len(files) >= 5
    raw = b"\n".join(path.read_bytes() for path in files)
    found = [secret for secret in secrets if secret.encode() in raw]
    assert found, "the list names secrets of these files"
    with structlog.testing.capture_logs() as logs:
        async with ScriptedBackend() as backend:
            async with running(collector_config(tmp_path, backend.url)) as collector:
                for path in files:
                    family = path.parent.name if path.parent.name in {"evolution", "baileys"} else "evolution"
                    answer = await collector.post(f"/gateways/{family}/loja-sp", path.read_bytes())
                    assert answer.status_code == 200, path.name
                stored = (await collector.totals()).get("stored", 0)
                await eventually(lambda: len(backend.stored) >= stored, "everything shipped")
                file = on_disk(tmp_path)
            shipped = backend.bodies()
    told = json.dumps(logs, default=str).encode()
    for secret in found:
        assert secret.encode() not in file + on_disk(tmp_path), "in the data folder"
        assert secret.encode() not in shipped, "over the wire"
        assert secret.encode() not in told, "in the logs"


async def test_nothing_of_a_qr_reaches_the_file_even_while_nothing_ships(tmp_path: Path) -> None:
    names = ("baileys/connection.update-qr-SECRET.json", "evolution/qrcode.updated-SECRET.json")
    config = collector_config(tmp_path, "http://127.0.0.1:9")
    async with running(config) as collector:
        for name in names:
            answer = await collector.post(f"/gateways/{name.split('/', 1)[0]}/loja-sp", fixture(name))
            assert answer.status_code == 200
        written = on_disk(tmp_path)
    for name in names:
        data = json.loads(fixture(name))["data"]
        told = strings({key: value for key, value in data.items() if key in {"qr", "qrcode"}})
        secrets = [text for text in told if len(text) > 12]
        assert secrets, name
        for text in secrets:
            assert text.encode() not in written


async def test_a_configured_secret_is_cut_wherever_a_body_holds_it(tmp_path: Path) -> None:
    async with ScriptedBackend() as backend:
        config = collector_config(tmp_path, backend.url, gateways=gateway(tokens=(TOKEN,)))
        async with running(config) as collector:
            odd = message(1, headers={"x": TOKEN}, escaped="SPLIT").replace(
                b'"SPLIT"', b'"\\u0074oken-of-the-tests"'
            )
            broken = b'{"token": "' + TOKEN.encode() + b'", "half'
            for body in (odd, broken):
                answer = await collector.post("/gateways/evo/loja-sp", body, **{"X-Collector-Token": TOKEN})
                assert answer.status_code == 200
            await eventually(lambda: len(backend.stored) == 2, "both shipped")
            written = on_disk(tmp_path)
        for body in backend.stored.values():
            event = decode(body)
            assert isinstance(event, dict)
            assert event["redacted"]
        shipped = backend.bodies()
    for secret in (TOKEN.encode(), b"\\u0074oken-of-the-tests", SECRET):
        assert secret not in written
        assert secret not in shipped
    assert "/envelope/headers/x" in json.dumps([json.loads(body) for body in backend.stored.values()])
