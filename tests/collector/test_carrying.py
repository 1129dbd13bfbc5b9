"""Records carried from one collector to another: everything once, over the socket and on the file."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import verbs
from collector.carrying import STATES, NoRecord, record_document, record_of
from collector.config import CollectorConfig
from collector.offline import session
from collector.verbs import Document, VerbError
from outbox.kept import KeptRecord, KeptState
from outbox.sqlite import open_sqlite
from tests.collector.running import collector_config, eventually, message, running
from tests.collector.scripted import Reply, ScriptedBackend
from tests.outbox.records import sha256_of

NOWHERE = "http://127.0.0.1:9"
WHOLE = {
    "id": "00000000-0000-5000-8000-000000000001",
    "digest": "00ff",
    "state": "dead",
    "label": "evolution/x message",
    "channel": "webhook",
    "status": 422,
    "reason": "payload",
    "attempts": 1,
    "created_at": "2026-01-31T12:00:00+00:00",
    "died_at": "2026-01-31T12:00:01+00:00",
    "body": "{}",
}


async def exported(config: CollectorConfig, state: str) -> list[Document]:
    records: list[Document] = []
    async with session(config) as opened:
        after: object = 0
        while True:
            page = await opened.ask({"verb": "export", "state": state, "after": after})
            if not page["records"]:
                return records
            records += page["records"]
            after = page["after"]


async def imported(config: CollectorConfig, records: Sequence[object], blobs: Path = Path()) -> Document:
    async with session(config) as opened:
        return await opened.ask({"verb": "import", "records": list(records), "blobs": str(blobs)})


async def test_a_record_takes_its_blobs_along(tmp_path: Path) -> None:
    pictures = [bytes([number]) * 100_000 for number in range(3)]
    config = collector_config(tmp_path / "a", NOWHERE)
    async with running(config) as collector:
        for number, picture in enumerate(pictures):
            element = json.loads(message(number))
            element["data"]["message"] = {"imageMessage": {}, "base64": base64.b64encode(picture).decode()}
            posted = await collector.post("/gateways/evolution/x", json.dumps(element).encode())
            assert posted.status_code == 200
    folder = config.data_folder / "blobs"
    records = await exported(config, "waiting")
    named = [sha256_of(picture) for picture in pictures]
    listed = [blob["sha256"] for record in records for blob in record["blobs"]]
    assert set(listed) == set(named)
    (folder / named[1]).write_bytes(b"damaged")
    (folder / named[2]).unlink()
    async with ScriptedBackend() as backend:
        other = collector_config(tmp_path / "b", backend.url)
        told = await imported(other, records, folder)
        assert told == {"counts": {"stored": len(records)}, "bad": [], "blobs_missing": 2}
        assert (await imported(other, records, folder))["counts"] == {"duplicate": len(records)}
        assert not any((other.data_folder / "blobs" / "tmp").iterdir())
        async with running(other):
            await eventually(lambda: len(backend.stored) == len(records), "all is shipped")
        assert backend.blobs == {named[0]: pictures[0]}
    assert (folder / named[0]).exists(), "an import takes nothing away"


@pytest.mark.parametrize(
    "blobs", ["x", [1], [{"sha256": "x", "bytes": 1}], [{"sha256": "0" * 64, "bytes": -1}]]
)
async def test_odd_blobs_of_a_record_are_refused(tmp_path: Path, blobs: object) -> None:
    config = collector_config(tmp_path, NOWHERE)
    async with session(config) as opened:
        answer = await opened.ask({"verb": "import", "records": [{**WHOLE, "blobs": blobs}]})
    assert answer["counts"] == {}
    assert [bad["place"] for bad in answer["bad"]] == [0]


async def test_what_died_and_what_waits_is_carried_to_another_collector_and_shipped_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs, "PAGE_BYTES_MAX", 1)
    async with ScriptedBackend(script=lambda _request: Reply(422)) as backend:
        config = collector_config(tmp_path / "a", backend.url)
        async with running(config) as collector:
            for number in range(3):
                await collector.post("/gateways/evolution/x", message(number))

            async def all_dead() -> bool:
                return (await collector.outbox())["dead"] == 3

            await eventually(all_dead, "three dead letters")
            dead = await exported(config, "dead")
            assert [letter["status"] for letter in dead] == [422] * 3
            backend.script = lambda _request: Reply(503)
            await collector.post("/gateways/evolution/x", message(9))
            waiting = await exported(config, "waiting")
            assert len(waiting) == 1
    assert await exported(config, "waiting") == waiting, "the same on the file of a stopped one"
    async with ScriptedBackend() as honest:
        other = collector_config(tmp_path / "b", honest.url)
        assert await imported(other, [*waiting, *dead]) == {
            "counts": {"stored": 4},
            "bad": [],
            "blobs_missing": 0,
        }
        async with running(other) as collector:
            again = await imported(other, [*waiting, *dead])
            assert again == {"counts": {"duplicate": 4}, "bad": [], "blobs_missing": 0}
            await eventually(lambda: len(honest.stored) == 1, "what waited is shipped")
            assert set(honest.stored) == {waiting[0]["id"]}
            assert honest.stored[str(waiting[0]["id"])] == str(waiting[0]["body"]).encode()
            assert (await collector.outbox())["dead"] == 3, "what died stays dead until somebody says so"
            again = {**waiting[0], "id": "00000000-0000-5000-8000-00000000000a"}
            assert (await imported(other, [again]))["counts"] == {"stored": 1}
            await eventually(lambda: len(honest.stored) == 2, "an import wakes the shipper")


def storm(number: int) -> bytes:
    """One of many equal connection updates."""
    body = {
        "event": "connection.update",
        "instance": "x",
        "data": {"instance": "x", "state": "connecting", "statusReason": 200},
        "date_time": f"2026-01-01T10:00:00.{number:03}Z",
    }
    return json.dumps(body).encode()


async def test_the_last_of_a_storm_is_not_left_behind(tmp_path: Path) -> None:
    config = collector_config(tmp_path, NOWHERE)
    async with running(config) as collector:
        for number in range(15):
            assert (await collector.post("/gateways/evolution/x", storm(number))).status_code == 200
        outbox = await collector.outbox()
        assert (outbox["waiting"], outbox["held"]) == (10, 1)
        records = await exported(config, "waiting")
        assert len(records) == 11
        assert "10:00:00.014Z" in str(records[-1]["body"])


async def test_a_body_above_a_page_and_above_the_old_request_limit_passes_both_ways(tmp_path: Path) -> None:
    config = collector_config(tmp_path, NOWHERE)
    large = {**WHOLE, "state": "waiting", "body": json.dumps({"text": "ä" * 3_000_000}, ensure_ascii=False)}
    small = {**WHOLE, "state": "waiting", "id": "00000000-0000-5000-8000-000000000002"}
    async with running(config):
        assert (await imported(config, [small, large]))["counts"] == {"stored": 2}
        records = await exported(config, "waiting")
    assert [record["body"] for record in records] == [small["body"], large["body"]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "ABC"}, "id"),
        ({"id": f"{WHOLE['id']}\r\nX-Evil: 1"}, "id"),
        ({"id": 7}, "id"),
        ({"digest": "xy"}, "digest"),
        ({"digest": "00" * 33}, "digest"),
        ({"state": "seen"}, "state"),
        ({"state": []}, "state"),
        ({"label": "x" * 3_000}, "label"),
        ({"status": True}, "status"),
        ({"status": "422"}, "status"),
        ({"attempts": -1}, "attempts"),
        ({"created_at": "2026-01-31T12:00:00"}, "created_at"),
        ({"created_at": None}, "created_at"),
        ({"died_at": "0001-01-01T00:00:00+00:00"}, "died_at"),
        ({"body": ""}, "body"),
        ({"body": {"a": 1}}, "body"),
        ({"body": "\ud800"}, "body"),
        ({"body_base64": "e30="}, "body"),
        ({"body": None, "body_base64": "@"}, "body"),
    ],
)
async def test_what_is_no_record_is_named_and_stops_nobody(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    answer = await imported(collector_config(tmp_path, NOWHERE), [7, WHOLE, {**WHOLE, **change}])
    assert answer["counts"] == {"stored": 1}
    first, second = answer["bad"]
    assert (first["place"], second["place"]) == (0, 2)
    assert second["reason"].startswith(said)


@pytest.mark.parametrize(
    "wanted",
    [
        {"verb": "export"},
        {"verb": "export", "state": "seen"},
        {"verb": "export", "state": ["dead"]},
        {"verb": "export", "state": "dead", "after": -1},
        {"verb": "import"},
        {"verb": "import", "records": [WHOLE] * 501},
    ],
)
async def test_wrong_requests_are_said_to_be_wrong(tmp_path: Path, wanted: dict[str, object]) -> None:
    async with session(collector_config(tmp_path, NOWHERE)) as opened:
        with pytest.raises(VerbError):
            await opened.ask(wanted)


async def test_a_line_of_the_archive_of_dead_letters_can_be_brought_back(tmp_path: Path) -> None:
    line = {**WHOLE, "body": None, "body_base64": "e30="}
    del line["state"]
    config = collector_config(tmp_path, NOWHERE)
    assert (await imported(config, [line]))["counts"] == {"stored": 1}
    store = await open_sqlite(config.data_folder)
    (letter,) = await store.dead_show(str(WHOLE["id"]))
    assert (letter.body, letter.reason) == (b"{}", "payload")
    await store.close()


MOMENTS = st.datetimes(min_value=datetime(1980, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  the zone is in ``timezones``


@given(
    digest=st.binary(max_size=16),
    state=st.sampled_from(STATES),
    texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=30), min_size=3, max_size=3),
    status=st.none() | st.integers(100, 599),
    body=st.binary(min_size=1, max_size=50)
    | st.text(st.characters(codec="utf-8"), min_size=1).map(str.encode),
    moments=st.tuples(MOMENTS, MOMENTS),
)
def test_a_record_comes_back_as_it_was(
    digest: bytes,
    state: KeptState,
    texts: list[str],
    status: int | None,
    body: bytes,
    moments: tuple[datetime, datetime],
) -> None:
    label, channel, reason = texts
    created_at, at = moments
    record = KeptRecord(
        rowid=0,
        id=str(WHOLE["id"]),
        digest=digest,
        state=state,
        label=label,
        channel=channel,
        status=status,
        reason=reason,
        attempts=3,
        created_at=created_at,
        at=at if state == "dead" else created_at,
        body=body,
    )
    line = json.dumps(record_document(record), ensure_ascii=False).encode()
    assert record_of(json.loads(line)) == record


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(
    st.sampled_from(list(WHOLE)), inner), max_leaves=9))  # fmt: skip
def test_no_json_value_is_more_than_no_record(value: object) -> None:
    with pytest.raises(NoRecord):
        record_of({**WHOLE, **value, "id": value} if isinstance(value, dict) else value)
