"""Many events in one request (contract §2): a receipt a line, and no line fails its neighbours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from contracts.envelope import BATCH_PATH, PROBLEM_TOO_LARGE, PROBLEM_UNSIGNED
from tests.ingest.backend import Backend, an_id, backend, event
from tests.support.postgres import PgServer, fresh_database

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def b(pg_server: PgServer, migrated_template: str) -> AsyncIterator[Backend]:
    async with (
        fresh_database(pg_server, migrated_template) as dsn,
        backend(dsn, batch_lines_max=50) as running,
    ):
        yield running


def receipts(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.content.splitlines()]


async def test_one_receipt_a_line_in_order(b: Backend) -> None:
    ids = [an_id() for _ in range(20)]
    lines = [event(event_id=event_id, payload={"n": n}) for n, event_id in enumerate(ids)]
    assert receipts(await b.post_batch(*lines)) == [{"event_id": i, "status": "stored"} for i in ids]
    assert receipts(await b.post_batch(*lines)) == [{"event_id": i, "status": "duplicate"} for i in ids]
    stored = (await b.events())[-20:]
    assert [(row["event_id"], row["payload"]["n"]) for row in stored] == list(
        zip(ids, range(20), strict=True)
    )


async def test_a_bad_line_never_fails_its_neighbours(b: Backend) -> None:
    good, broken, shapeless, nameless = an_id(), an_id(), an_id(), an_id()
    answer = receipts(
        await b.post_batch(
            b"",
            event(event_id=good),
            b'{"event_id":"' + broken.encode() + b'","type":',
            event(event_id=shapeless, payload="text"),
            event(event_id="no uuid"),
            event(),
            event(event_id=nameless.upper(), payload={"n": 1}),
        )
    )
    assert [(line["event_id"], line["status"], line.get("code")) for line in answer] == [
        (good, "stored", None),
        (broken, "rejected", 400),
        (shapeless, "rejected", 422),
        ("", "rejected", 400),
        ("", "rejected", 400),
        (nameless, "stored", None),
    ]
    assert all(line["detail"] for line in answer if line["status"] == "rejected")


async def test_the_same_id_twice_in_a_batch_is_stored_and_a_duplicate(b: Backend) -> None:
    event_id = an_id()
    answer = receipts(await b.post_batch(event(event_id=event_id), event(event_id=event_id)))
    assert [line["status"] for line in answer] == ["stored", "duplicate"]


async def test_lines_with_surrogates_and_nan_are_stored(b: Backend) -> None:
    lines = [
        b'{"event_id":"%s","type":"x","chat_jid":null,"payload":{"a":%s}}' % (an_id().encode(), value)
        for value in (b'"\\ud800"', b"NaN", b'"\xff"', b"1e200000")
    ]
    assert [line["status"] for line in receipts(await b.post_batch(*lines))] == ["stored"] * 4
    assert [row["payload"]["a"] for row in (await b.events())[-4:]] == ["�", "NaN", "�", "1e200000"]


async def test_an_empty_batch_has_no_receipts(b: Backend) -> None:
    assert receipts(await b.post_batch(b"")) == []


async def test_too_many_lines_are_413_of_our_own_type(b: Backend) -> None:
    answer = await b.post_batch(*[event(event_id=an_id()) for _ in range(51)])
    assert (answer.status_code, answer.json()["type"]) == (413, PROBLEM_TOO_LARGE)


async def test_a_batch_is_signed_as_a_whole(b: Backend) -> None:
    headers = {"X-Event-Id": an_id(), "X-Signature": "0" * 64}
    answer = await b.client.post(BATCH_PATH, content=event(event_id=an_id()), headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (401, PROBLEM_UNSIGNED)


async def test_a_large_batch_is_read_off_the_loop(b: Backend) -> None:
    lines = [event(event_id=an_id(), payload={"t": "x" * 20_000}) for _ in range(40)]
    assert [line["status"] for line in receipts(await b.post_batch(*lines))] == ["stored"] * 40


NASTY = [
    '"',
    "\\",
    '\\"',
    "{}",
    "{a,b}",
    ",",
    "NULL",
    "null",
    "",
    " ",
    "a\nb",
    '","',
    "ç😀",
    "'; DROP TABLE x",
    "\u2028",
    "\\x41",
]


async def test_any_text_in_any_column_comes_back_as_it_was(b: Backend) -> None:
    """Columns travel as array literals, alone and beside columns that are plain or absent."""
    columns = ("chat_jid", "instance", "gateway", "scope", "channel", "kind", "occurred_from", "reader_error")
    groups: list[list[str | None]] = [[*NASTY], [*NASTY, None], ["plain"], [None, "plain"]]
    for texts in groups + [[text] for text in NASTY]:
        ids = [an_id() for _ in texts]
        lines = []
        for number, (event_id, text) in enumerate(zip(ids, texts, strict=True)):
            members: dict[str, Any] = dict.fromkeys(columns, text) | {"type": text or "t"}
            lists = {} if text is None else {"flags": [text, "x"], "redacted": [text]}
            lines.append(event(event_id=event_id, payload={"n": number}, **members | lists))
        assert {line["status"] for line in receipts(await b.post_batch(*lines))} == {"stored"}
        for row, text in zip((await b.events())[-len(texts) :], texts, strict=True):
            assert [row[name] for name in columns] == [text] * len(columns)
            assert row["type"] == (text or "t")
            assert row["flags"] == (None if text is None else [text, "x"])
            assert row["redacted"] == (None if text is None else [text])
