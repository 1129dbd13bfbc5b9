"""Who opens the direct door: only a token that the database has, and nobody learns or stores it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import httpx
import pytest
import pytest_asyncio
import structlog

from contracts.configured import GatewayConfig
from ingest.calm import CalmConnection
from ingest.config import IngestConfig
from ingest.direct.books import WAITING_MAX, TokenBook
from ingest.direct.config import DirectConfig
from ingest.direct.tokens import compose, hash_of, read_token
from ingest.row import UnavailableError
from tests.ingest.backend import SECRET, Backend, backend
from tests.ingest.gateways import Direct, baileys, direct_to, evolution, text
from tests.ingest.proxy import proxy_to
from tests.support.postgres import PgServer, fresh_database
from zaplake.gateway_tokens import create, revoke

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = "urn:zaplake:problem:unknown-token"
MESSAGE = baileys("messages.upsert", {"messages": [text(1)], "type": "notify"})
EASY: dict[str, Any] = {"token_guesses_burst": 100_000}
"""Limits that let a test guess as often as it likes."""
_Result = TypeVar("_Result")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def b(pg_server: PgServer, migrated_template: str) -> AsyncIterator[Backend]:
    """One backend that counts no guesses, for the tests that need no settings of their own."""
    async with (
        fresh_database(pg_server, migrated_template) as dsn,
        backend(dsn, **EASY) as running,
    ):
        yield running


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def bot(b: Backend) -> Direct:
    return await direct_to(b, "bot", "baileys")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def evo(b: Backend) -> Direct:
    return await direct_to(b, "evolution")


async def test_a_token_opens_as_a_header_and_in_the_path(b: Backend, bot: Direct) -> None:
    token = bot.made.token
    ways: list[tuple[str, dict[str, str]]] = [
        ("", {"X-Gateway-Token": token}),
        ("", {"Authorization": f"Bearer {token}"}),
        ("", {"authorization": f"BEARER   {token}"}),
        (f"/{token}", {}),
        (f"/{token}/loja", {}),
        (f"/{token}/loja", {"Authorization": "Bearer the.gateways.own-jwt"}),
        (f"/{token}", {"X-Gateway-Token": token}),
    ]
    for path, headers in ways:
        answer = await b.client.post(bot.path + path, content=MESSAGE, headers=headers)
        assert answer.status_code == 200, (path, list(headers), answer.text)


def wrong_ones(right: str) -> dict[str, str]:
    prefix, own_id, secret = right.split("_", 2)  # the secret may have one too
    made = f"{prefix}_{own_id}"
    return {
        "absent": "",
        "another word": "wrong",
        "short": right[:-1],
        "long": right + "A",
        "other secret": f"{made}_{secret[::-1]}",
        "other id": right.replace(made, "zlg_000000000000"),
        "no secret": made,
        "huge": "zlg_" + "a" * 30_000,
        "its hash": hash_of(right.encode()).hex(),
    }


@pytest.mark.parametrize("fault", wrong_ones("zlg_a_b"))
async def test_a_wrong_token_is_401_and_for_evolution_503_so_that_it_comes_again(
    bot: Direct, evo: Direct, fault: str
) -> None:
    before = await bot.backend.count()
    for gate, status in ((bot, 401), (evo, 503)):
        wrong = wrong_ones(gate.made.token)[fault]
        answers = [await gate.post(MESSAGE, **{"X-Gateway-Token": wrong})]
        if len(wrong) < 10_000:
            answers.append(await gate.backend.client.post(f"{gate.path}/{wrong}", content=MESSAGE))
        for answer in answers:
            assert (answer.status_code, answer.json()["type"]) == (status, UNKNOWN)
            assert "detail" not in answer.json()
            assert ("retry-after" in answer.headers) == (status == 503)
    assert await bot.backend.count() == before


@pytest.mark.parametrize(
    "value", [b"\xff\xfe", b"%00", b"\xed\xa0\x80", b"'; DROP TABLE", b"zlg__", b"zlg_\xff_"]
)
@pytest.mark.parametrize("name", [b"X-Gateway-Token", b"Authorization", b"Content-Type"])
async def test_a_hostile_header_never_gives_500(b: Backend, bot: Direct, name: bytes, value: bytes) -> None:
    bearer = b"Bearer " + value if name == b"Authorization" else value
    answer = await b.client.post(bot.path, content=MESSAGE, headers=[(name, bearer)])
    assert answer.status_code == 401


async def test_a_token_opens_its_own_gateway_and_instances_only(b: Backend, bot: Direct) -> None:
    other = await direct_to(b, "bot-2", "baileys", ("loja", "filial"))
    answer = await b.client.post(bot.path, content=MESSAGE, headers={"X-Gateway-Token": other.made.token})
    assert answer.status_code == 401
    before = await b.count()
    for below in ("", "/outra"):
        answer = await other.post(MESSAGE, below)
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:zaplake:problem:foreign-instance")
    two = json.dumps({"event": "messages.upsert", "instance": "outra", "data": {"messages": [text(5)]}})
    assert (await other.post(two.encode(), "/loja")).status_code == 403
    assert await b.count() == before
    assert (await other.post(MESSAGE, "/filial")).status_code == 200
    evo = await direct_to(b, "evolution", None, ("loja",))
    outside = evolution("messages.upsert", text(6), instance="outra")
    assert (await evo.post(outside)).status_code == 503


async def test_a_name_that_nobody_has_is_like_a_wrong_token(b: Backend, bot: Direct) -> None:
    for name in ("nobody", "%ff%fe", "a%2Fb", bot.made.token):
        answer = await b.client.post(
            f"/api/gateways/{name}", content=MESSAGE, headers={"X-Gateway-Token": bot.made.token}
        )
        assert (answer.status_code, answer.json()["type"]) == (401, UNKNOWN)


async def test_a_new_token_works_at_once_and_a_revoked_one_soon_no_more(dsn: str) -> None:
    async with backend(dsn, token_known_s_max=0.3, **EASY) as b:
        for family, status in (("baileys", 401), ("evolution", 503)):
            await b.client.post(f"/api/gateways/{family}", content=MESSAGE)  # the tokens are read
            gate = await direct_to(b, family)
            assert (await gate.post(MESSAGE)).status_code == 200
            await revoke(dsn, gate.made.id)
            async with asyncio.timeout(20):
                while (answer := await gate.post(MESSAGE)).status_code == 200:
                    await asyncio.sleep(0.02)
            assert (answer.status_code, answer.json()["type"]) == (status, UNKNOWN)


async def test_a_refusal_is_an_alert_that_ends_when_nothing_more_comes(dsn: str) -> None:
    async with backend(dsn, alert_repeat_s=3600, **EASY) as b:
        bot = await direct_to(b, "bot", "baileys")
        query = "SELECT name, subject, resolved_at IS NULL AS open FROM lake.alerts ORDER BY subject"
        for _ in range(3):
            await bot.post(MESSAGE, **{"X-Gateway-Token": "wrong"})
            await b.client.post("/api/gateways/nobody", content=MESSAGE)
            await b.service.desk.look_once()
        standing = [{"name": "direct.token", "subject": name, "open": True} for name in ("bot", "unknown")]
        assert await b.fetch(query) == standing
        await b.fetch("UPDATE lake.alerts SET repeated_at = now() - interval '121 minutes'")
        await bot.post(MESSAGE, **{"X-Gateway-Token": "wrong"})
        await b.service.desk.look_once()
        assert await b.fetch(query) == [standing[0], {**standing[1], "open": False}]


async def test_its_last_use_is_kept_to_the_hour(b: Backend) -> None:
    gate = await direct_to(b, "used", "baileys")
    query = "SELECT last_used_at FROM lake.gateway_tokens WHERE id = $1"
    (row,) = await b.fetch(query, gate.made.id)
    assert row["last_used_at"] is None
    assert (await gate.post(MESSAGE)).status_code == 200
    (row,) = await b.fetch(query + " AND last_used_at = date_trunc('hour', now(), 'UTC')", gate.made.id)
    await b.fetch("UPDATE lake.gateway_tokens SET last_used_at = NULL WHERE id = $1", gate.made.id)
    assert (await gate.post(MESSAGE)).status_code == 200  # this process has noted it in this hour
    (row,) = await b.fetch(query, gate.made.id)
    assert row["last_used_at"] is None


@pytest.fixture
def short_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="zlpx"))
    yield folder
    shutil.rmtree(folder)


async def test_while_the_database_is_away_nobody_is_told_401(dsn: str, short_folder: Path) -> None:
    async with (
        proxy_to(dsn, short_folder) as proxy,
        backend(dsn, database=proxy.dsn, reconnect_pause_s=0.05, **EASY) as b,
    ):
        bot = await direct_to(b, "bot", "baileys")
        assert (await bot.post(MESSAGE)).status_code == 200
        await proxy.close()
        for wrong in wrong_ones(bot.made.token).values():
            answer = await bot.post(MESSAGE, **{"X-Gateway-Token": wrong})
            assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (503, True)
            assert answer.json()["type"] == "urn:zaplake:problem:unavailable"
        second = baileys("messages.upsert", {"messages": [text(2)], "type": "notify"})
        assert (await bot.post(second)).status_code == 503
        await proxy.open()
        async with asyncio.timeout(20):
            while (answer := await bot.post(second)).status_code != 200:
                assert answer.status_code == 503
        assert (await bot.post(MESSAGE, **{"X-Gateway-Token": "wrong"})).status_code == 401
        assert await b.count() == 2


async def test_a_database_of_an_older_release_is_an_outage(dsn: str) -> None:
    async with backend(dsn) as b:
        bot = await direct_to(b, "bot", "baileys")
        await b.fetch("DROP TABLE lake.gateway_tokens")
        assert (await bot.post(MESSAGE)).status_code == 503


class Counted(CalmConnection):
    """Counts how often the database is asked."""

    asked = 0

    async def run(self, work: Callable[[asyncpg.Connection[Any]], Awaitable[_Result]]) -> _Result:
        self.asked += 1
        return await super().run(work)


async def test_a_flood_of_unknown_tokens_is_one_look_a_second(dsn: str) -> None:
    config = IngestConfig(dsn=dsn, secrets=(SECRET,))
    calm = Counted(config, name="zaplake-test")
    book = TokenBook(calm, known_s_max=10, pause_s=1)
    made = await create(dsn, "bot", "baileys", ())
    right = read_token(made.token.encode())
    try:
        assert await book.grant(right, on_guess=lambda: None) is not None
        calm.asked = 0
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        strangers = [read_token(compose(f"{n:012x}", "x" * 43).encode()) for n in range(1000)]
        asked = (book.grant(one, on_guess=lambda: None) for one in strangers)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert answers.count(None) == WAITING_MAX
        assert {type(answer) for answer in answers} == {type(None), UnavailableError}
        assert calm.asked <= 1 + (loop.time() - started_s)
        calm.asked = 0
        for _ in range(1000):
            assert await book.grant(right, on_guess=lambda: None) is not None
        assert calm.asked == 0
        new = read_token((await create(dsn, "bot", "baileys", ())).token.encode())
        assert await book.grant(new, on_guess=lambda: None) is not None
    finally:
        calm.drop()


async def test_a_database_that_hangs_keeps_those_who_wait_no_longer_than_one_look(
    dsn: str, short_folder: Path
) -> None:
    async with proxy_to(dsn, short_folder) as proxy:
        config = IngestConfig(dsn=proxy.dsn, secrets=(SECRET,), commit_s_max=0.1, connect_s_max=0.3)
        calm = Counted(config, name="zaplake-test")
        book = TokenBook(calm, known_s_max=10, pause_s=1)
        proxy.frozen.clear()
        asked = (book.grant(read_token(b"x"), on_guess=lambda: None) for _ in range(50))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        proxy.frozen.set()
        assert [type(outcome) for outcome in outcomes] == [UnavailableError] * 50
        assert calm.asked <= 2
        calm.drop()


async def test_who_guesses_too_often_is_429_and_the_right_token_still_opens(dsn: str) -> None:
    hard = {**EASY, "token_guesses_burst": 3, "token_guesses_per_s": 0.001}
    async with backend(dsn, **hard) as b:
        bot = await direct_to(b, "bot", "baileys")
        answers = [await bot.post(MESSAGE, **{"X-Gateway-Token": "wrong"}) for _ in range(6)]
        assert [answer.status_code for answer in answers] == [401] * 3 + [429] * 3
        assert int(answers[-1].headers["retry-after"]) > 0
        assert (await bot.post(MESSAGE)).status_code == 200


async def test_a_signature_of_the_body_opens_where_the_settings_have_its_secret(dsn: str) -> None:
    gateways = (
        GatewayConfig(name="cloud", family="cloudapi", app_secrets=("um-segredo-inventado",)),
        GatewayConfig(name="waha", family="waha", hmac_keys=("outro-segredo-inventado",)),
        GatewayConfig(name="bare", family="cloudapi"),
    )
    async with backend(dsn, direct=DirectConfig(gateways=gateways), **EASY) as b:
        value = {"metadata": {"phone_number_id": "111"}, "messages": [
            {"id": "wamid.X1", "from": "5511900000001", "timestamp": "1764950400", "type": "text",
             "text": {"body": "oi"}}]}  # fmt: skip
        cloud = json.dumps(
            {
                "object": "whatsapp_business_account",
                "entry": [{"changes": [{"field": "messages", "value": value}]}],
            }
        ).encode()
        signature = "sha256=" + hmac.digest(b"um-segredo-inventado", cloud, "sha256").hex()

        async def post(name: str, **headers: str) -> httpx.Response:
            return await b.client.post(f"/api/gateways/{name}", content=cloud, headers=headers)

        answer = await post("cloud", **{"X-Hub-Signature-256": signature})
        assert answer.json()["stored"] == 1
        row = await b.last_event()
        assert (row["channel"], row["gateway"], row["instance"]) == ("direct", "cloud", "111")
        for header in (signature[:-1] + "x", signature[7:], "", "sha256=ñ"):
            wrong = await b.client.post(
                "/api/gateways/cloud", content=cloud, headers=[(b"X-Hub-Signature-256", header.encode())]
            )
            assert wrong.status_code == 401
        assert (await post("bare", **{"X-Hub-Signature-256": signature})).status_code == 401
        assert (await post("nobody", **{"X-Hub-Signature-256": signature})).status_code == 401
        assert (await post("cloud")).status_code == 401
        mac = hmac.new(b"outro-segredo-inventado", cloud, hashlib.sha512).hexdigest()
        assert (await post("waha", **{"X-Webhook-Hmac": mac})).status_code == 200
        assert await b.count() == 2


async def test_the_token_is_nowhere_in_the_logs_and_the_lake(
    dsn: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    for client in ("httpx", "httpcore"):  # they are the gateway's side
        caplog.set_level(logging.WARNING, client)
    with structlog.testing.capture_logs() as logs:
        async with backend(dsn, **EASY) as b:
            evo = await direct_to(b, "evolution")
            token = evo.made.token
            url = f"http://zaplake/api/gateways/evolution/{token}"
            bodies = [
                evolution("messages.upsert", text(1), destination=url),
                evolution("brand.new", {"said": token}, destination=url),
                b'{"no json" ' + token.encode(),
            ]
            for body in bodies:
                assert (await b.client.post(f"{evo.path}/{token}/loja", content=body)).status_code == 200
            for path in (
                f"/api/gateways/{token}",
                f"/api/gateways/evolution/{token}x",
                f"{evo.path}/{token}/a/b",
            ):
                assert (await b.client.post(path, content=bodies[0])).status_code in {401, 503}
            assert await b.count() == 3
            for table in ("whatsapp_event_logs", "gateway_tokens", "scopes", "alerts", "conflicts"):
                rows = await b.fetch(f"SELECT t::text AS told FROM lake.{table} t")
                assert not [row for row in rows if token in row["told"]], table
    said = "".join(map(str, logs)) + caplog.text + "".join(capfd.readouterr())
    assert "direct.refused" in said
    assert token not in said
    assert token.split("_", 2)[2] not in said
