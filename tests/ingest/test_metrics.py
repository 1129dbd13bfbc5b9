"""The backend's /metrics says what happened, also while Postgres is away; docs/metrics.md lists all of it."""

from __future__ import annotations

import httpx

from contracts.envelope import EVENT_PATH
from tests.ingest.backend import Backend, an_id, backend, beat, event
from tests.ingest.gateways import direct_to, evolution
from tests.support.metrics import documented, families, value

PREFIX = "zaplake_ingest_"


async def drive(b: Backend) -> None:
    """One of everything."""
    twice = an_id()
    for digest in ("00" * 16, "00" * 16, "11" * 16):
        await b.post(twice, event(digest=digest))
    await b.post_batch(event(event_id=an_id()), b"no event")
    await b.client.post(EVENT_PATH, content=b"{}", headers={"X-Event-Id": an_id()})
    await b.post_heartbeat(beat())
    await (await direct_to(b, "evolution")).post(evolution("chats.update", []))


async def test_the_page_tells_what_happened(dsn: str) -> None:
    async with backend(dsn) as b:
        await drive(b)
        answer = await b.client.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        page = answer.text
        told = {
            outcome: value(page, f"{PREFIX}events_total", outcome=outcome)
            for outcome in ("stored", "duplicate", "rejected")
        }
        assert told == {"stored": 2, "duplicate": 2, "rejected": 1}
        assert value(page, f"{PREFIX}conflicts_total") == 1
        assert value(page, f"{PREFIX}problems_total", type="unsigned") == 1
        assert value(page, f"{PREFIX}direct_facts_total", gateway="evolution", outcome="empty") == 1
        assert value(page, f"{PREFIX}commit_seconds_count") == 4
        assert value(page, f"{PREFIX}group_rows_sum") == 4
        assert value(page, f"{PREFIX}commits_total", outcome="committed") == 4
        assert value(page, f"{PREFIX}queue_rows") == value(page, f"{PREFIX}body_bytes") == 0
        assert 0 <= value(page, f"{PREFIX}heartbeat_age_seconds", collector="edge-1") < 20


async def test_the_documented_metrics_are_the_registry(dsn: str) -> None:
    async with backend(dsn) as b:
        await drive(b)
        assert families((await b.client.get("/metrics")).text) == documented(PREFIX)


async def test_without_postgres_the_page_still_comes(dsn: str) -> None:
    async with backend(dsn, database="postgresql://nobody@127.0.0.1:9/none") as b:
        assert (await b.post(an_id(), event())).status_code == 503
        page = (await b.client.get("/metrics")).text
        assert value(page, f"{PREFIX}commits_total", outcome="unavailable") == 1
        assert value(page, f"{PREFIX}problems_total", type="unavailable") == 1


async def test_another_machine_reads_it_only_when_a_setting_says_so(dsn: str) -> None:
    for is_open, status in ((False, 404), (True, 200)):
        async with backend(dsn, metrics_open=is_open) as b:
            transport = httpx.ASGITransport(app=b.service.app, client=("10.0.0.5", 4242))
            async with httpx.AsyncClient(transport=transport, base_url="http://backend") as client:
                assert (await client.get("/metrics")).status_code == status
            forwarded = await b.client.get("/metrics", headers={"X-Forwarded-For": "203.0.113.7"})
            assert forwarded.status_code == status
