"""`zaplake gateway token`: shown once, listed without it, revoked for good."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import asyncpg
import httpx
import pytest

from ingest.direct.tokens import hash_of
from tests.ingest.backend import backend
from tests.ingest.gateways import evolution, text
from tests.zaplake.operating import Operator
from tests.zaplake.processes import running


async def test_a_token_is_made_used_listed_and_revoked(dsn: str, operator: Operator) -> None:
    env = {"DATABASE_URL": dsn}
    said = await operator("gateway", "token", "create", "evolution", "--instance", "loja", "--json", env=env)
    assert said.code == 0
    made = json.loads(said.out)
    assert (made["family"], made["instances"], made["path"]) == (
        "evolution",
        ["loja"],
        "/api/gateways/evolution",
    )
    token = made["token"]
    async with backend(dsn, token_known_s_max=0.01) as b:
        headers = {"X-Gateway-Token": token}
        body = evolution("messages.upsert", text(1))
        assert (await b.client.post(made["path"], content=body, headers=headers)).status_code == 200
        kept = await b.fetch("SELECT hash FROM lake.gateway_tokens")
        assert [row["hash"] for row in kept] == [hash_of(token.encode())]
        shown = await operator("gateway", "token", "list", env=env, hidden=[token])
        assert made["id"] in shown.out
        assert "loja" in shown.out
        (listed,) = json.loads((await operator("gateway", "token", "list", "--json", env=env)).out)
        assert listed["last_used_at"] is not None
        assert listed.keys() == {
            "id", "gateway", "family", "instances", "created_at", "last_used_at", "revoked_at",
        }  # fmt: skip
        revoked = [await operator("gateway", "token", "revoke", made["id"], env=env) for _ in range(2)]
        assert revoked[0] == revoked[1]
        assert (revoked[0].code, made["id"] in revoked[0].out) == (0, True)
        assert (await b.client.post(made["path"], content=body, headers=headers)).status_code == 503
    assert "no token" in (await operator("gateway", "token", "list", env=env)).out
    (again,) = json.loads((await operator("gateway", "token", "list", "--all", "--json", env=env)).out)
    assert again["revoked_at"] is not None


async def test_the_backend_of_the_settings_takes_it_and_never_logs_it(
    dsn: str, operator: Operator, folder: Path
) -> None:
    settings = folder / "zaplake.toml"
    settings.write_text(
        """
        accounts = {"shop/loja" = "conta"}
        [capture.deny]
        kinds = ["call"]
        [[gateways]]
        name = "shop"
        family = "evolution"
        tokens = ["um-segredo-inventado"]
        """
    )
    env = {
        "DATABASE_URL": dsn,
        "ZAPLAKE_SIGNING_SECRETS": "a-secret-of-this-test",
        "ZAPLAKE_CONFIG": str(settings),
    }
    env["ZAPLAKE_LOG_LEVEL"] = "debug"
    log = folder / "serve.log"
    with running("serve", "--json", "--http-port", 0, log=log, env=env) as serve:
        url = (await asyncio.to_thread(serve.next_line))["ingest"]
        said = await operator("gateway", "token", "create", "shop", "--json", env=env)
        token = json.loads(said.out)["token"]
        async with httpx.AsyncClient(base_url=f"{url}/api/gateways/shop") as client:
            message = evolution("messages.upsert", text(1), apikey="um-segredo-inventado")
            call = evolution("call", {"id": "C1", "status": "offer"})
            bodies = {message: "stored", call: "counted", b'{"' + token.encode(): "stored"}
            for body, status in bodies.items():
                answer = await client.post(f"/{token}/loja", content=body)
                assert answer.json()["status"] == status, answer.text
            for wrong in (f"/{token}x/loja", "/um-segredo-inventado"):
                assert (await client.post(wrong, content=message)).status_code == 503
        assert "direct door: 1 gateway token\n" in (await operator("doctor", env=env, hidden=[token])).out
    assert "direct.refused" in log.read_text()
    assert token not in log.read_text()
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch("SELECT scope, t::text AS told FROM lake.whatsapp_event_logs t")
    await connection.close()
    assert {row["scope"] for row in rows} == {"conta"}
    assert not [row for row in rows if token in row["told"] or "um-segredo-inventado" in row["told"]]


async def test_people_are_told_how_to_use_it(dsn: str, operator: Operator) -> None:
    said = await operator(
        "gateway", "token", "create", "shop", "--family", "baileys", env={"DATABASE_URL": dsn}
    )
    assert said.code == 0
    assert "/api/gateways/shop" in said.out
    assert "shown this once" in said.out


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("create", "shop"), 2, "say --family"),
        (("create", "a/b", "--family", "waha"), 2, "no '/'"),
        (("create", "shop", "--family", "telegram"), 2, "--family"),
        (("revoke", "000000000000"), 1, "zaplake gateway token list"),
    ],
    ids=["no family", "slash", "odd family", "no such"],
)
async def test_errors_say_what_to_do_next(
    dsn: str, operator: Operator, arguments: tuple[str, ...], code: int, told: str
) -> None:
    said = await operator("gateway", "token", *arguments, env={"DATABASE_URL": dsn})
    assert (said.code, told in said.err) == (code, True), said.err


async def test_a_gateway_is_of_one_family(dsn: str, operator: Operator) -> None:
    env = {"DATABASE_URL": dsn}
    for family, code in (("waha", 0), ("baileys", 1), ("waha", 0)):
        said = await operator("gateway", "token", "create", "shop", "--family", family, env=env)
        assert said.code == code, said.err


async def test_a_database_without_the_table_says_so(dsn: str, operator: Operator) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("DROP TABLE lake.gateway_tokens")
    await connection.close()
    for arguments in (("create", "waha"), ("list",), ("revoke", "x")):
        said = await operator("gateway", "token", *arguments, env={"DATABASE_URL": dsn})
        assert (said.code, "zaplake db upgrade" in said.err) == (1, True)
