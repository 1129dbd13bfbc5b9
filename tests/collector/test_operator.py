"""What an operator asks of a collector, living or stopped: status, dead letters, loading a file."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from collector import jsonl
from collector.config import CollectorConfig
from collector.control import NotRunning, ask
from collector.offline import request
from collector.verbs import Document, VerbError
from outbox.clock import SystemClock
from outbox.record import NewRecord
from outbox.sqlite import open_sqlite
from outbox.store import StoreBusy
from outbox.verdict import Verdict
from tests.collector.running import collector_config, eventually, fixture, limits, message, running
from tests.collector.scripted import Reply, ScriptedBackend
from tests.outbox.records import blob_of, end_all, sha256_of

NOWHERE = "http://127.0.0.1:9"
EVENT_ID = "0b7a9c1e-0000-5000-8000-000000000001"


class Operator:
    """Asks, and keeps what was told meanwhile."""

    def __init__(self, config: CollectorConfig) -> None:
        self.config = config
        self.progress: list[Document] = []
        self.live: bool | None = None

    async def __call__(self, verb: str, **more: object) -> Document:
        document, self.live = await request(self.config, {"verb": verb, **more}, self._told)
        return document

    async def _told(self, document: Document) -> None:
        self.progress.append(document)


def lines_of(*events: Mapping[str, object]) -> bytes:
    return b"".join(
        json.dumps({"gateway": "baileys", "instance": "bot", **event}).encode() + b"\n" for event in events
    )


def connection(state: str, **more: object) -> dict[str, object]:
    return {"event": "connection.update", "data": {"connection": state}, **more}


async def test_dead_blobs_stand_among_the_dead_letters(tmp_path: Path) -> None:
    content = b"picture" * 10_000
    sha256 = sha256_of(content)
    async with ScriptedBackend(script=lambda r: Reply(400) if r.method == "PUT" else None) as backend:
        config = collector_config(tmp_path, backend.url)
        operator = Operator(config)
        store = await open_sqlite(config.data_folder)
        blob = blob_of(tmp_path / "spool", content)
        await store.put([NewRecord(id=EVENT_ID, body=b"{}", blobs=(blob,))])
        await store.close()
        async with running(config) as collector:

            async def is_dead() -> bool:
                return (await collector.outbox())["blobs_dead"] == 1

            await eventually(is_dead, "the blob is dead")
            listed = await operator("dead.list")
            assert listed["dead"] == []
            (letter,) = listed["blobs"]
            assert (letter["id"], letter["label"], letter["status"]) == (sha256, "blob image/jpeg", 400)
            assert (await operator("dead.show", id=sha256))["dead"] == [letter]
            assert Path(letter["file"]).read_bytes() == content
            backend.script = None
            assert await operator("dead.requeue", ids=[EVENT_ID, sha256]) == {"requeued": 1}
            await eventually(lambda: backend.blobs == {sha256: content}, "it is uploaded")
            await eventually(lambda: not Path(letter["file"]).exists(), "nobody needs its file")
            assert await operator("dead.requeue", ids=None) == {"requeued": 0}
            assert await operator("dead.drop", ids=[sha256]) == {"dropped": 0}
            with pytest.raises(VerbError, match="no dead letter"):
                await operator("dead.show", id=sha256)


async def test_no_dead_blob_is_left_out_of_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.verbs.LIST_MAX", 4)
    config = collector_config(tmp_path, "http://127.0.0.1:9")
    store = await open_sqlite(config.data_folder)
    names = sorted(sha256_of(b"%d" % n) for n in range(10))
    await store.put(
        [NewRecord(id=f"{n}", body=b"{}", blobs=(blob_of(tmp_path / "spool", b"%d" % n),)) for n in range(10)]
    )
    await end_all(store.blobs, SystemClock(), Verdict.DEAD)
    await store.close()
    operator = Operator(config)
    listed: list[str] = []
    after = 0
    while page := (await operator("dead.list", limit=1_000, blobs_after=after))["blobs"]:
        assert len(page) <= 4
        listed += [letter["id"] for letter in page]
        after = page[-1]["rowid"]
    assert sorted(listed) == names
    for name in names:
        assert [letter["id"] for letter in (await operator("dead.show", id=name))["dead"]] == [name]


async def test_dead_letters_over_the_socket_of_a_living_daemon(tmp_path: Path) -> None:
    async with ScriptedBackend(script=lambda _request: Reply(422)) as backend:
        config = collector_config(tmp_path, backend.url)
        operator = Operator(config)
        async with running(config) as collector:
            assert stat.S_IMODE(config.socket_path.stat().st_mode) == 0o600
            assert stat.S_IMODE(config.data_folder.stat().st_mode) == 0o700
            for number in range(3):
                await collector.post("/gateways/evolution/x", message(number))

            async def all_dead() -> bool:
                return (await collector.outbox())["dead"] == 3

            await eventually(all_dead, "three dead letters")
            listed = (await operator("dead.list"))["dead"]
            assert operator.live
            assert [letter["status"] for letter in listed] == [422, 422, 422]
            assert "body" not in listed[0]
            second = (await operator("dead.list", limit=1, after=listed[0]["rowid"]))["dead"]
            assert second == listed[1:2]
            shown = (await operator("dead.show", id=listed[0]["id"]))["dead"]
            assert json.loads(shown[0]["body"])["kind"] == "message"
            assert await operator("dead.drop", ids=[listed[0]["id"]]) == {"dropped": 1}
            backend.script = None
            assert await operator("dead.requeue", ids=None) == {"requeued": 2}
            await eventually(lambda: len(backend.stored) == 2, "requeued letters ship at once")
            status = await operator("status")
            assert status["name"] == "collector"


async def test_the_same_words_work_on_the_file_of_a_stopped_daemon(tmp_path: Path) -> None:
    config = collector_config(tmp_path, NOWHERE)
    async with running(config) as collector:
        await collector.post("/gateways/evolution/x", message(1))
    operator = Operator(config)
    status = await operator("status")
    assert operator.live is False
    assert status["outbox"]["waiting"] == 1
    assert (await operator("dead.list")) == {"dead": [], "blobs": []}
    assert not config.socket_path.exists()
    with pytest.raises(NotRunning):
        await ask(config.socket_path, {"verb": "status"}, operator._told)


@pytest.mark.parametrize(
    "wanted",
    [
        {"verb": "explode"},
        {},
        {"verb": "dead.drop"},
        {"verb": "dead.drop", "ids": "all"},
        {"verb": "dead.list", "limit": -1},
        {"verb": "dead.list", "after": True},
        {"verb": "dead.show", "id": "nobody"},
        {"verb": "load", "path": "/nonexistent/file.jsonl"},
    ],
)
async def test_wrong_requests_are_said_to_be_wrong(tmp_path: Path, wanted: dict[str, object]) -> None:
    config = collector_config(tmp_path, NOWHERE)
    with pytest.raises(VerbError):
        await request(config, wanted, Operator(config)._told)


async def test_noise_on_the_socket_is_answered_and_hurts_nobody(tmp_path: Path) -> None:
    config = collector_config(tmp_path, NOWHERE)
    async with running(config) as collector:
        for noise in (b"not json\n", b"[1]\n", b"\n", b"{" + b"x" * 2_000_000):
            reader, writer = await asyncio.open_unix_connection(str(config.socket_path))
            writer.write(noise)
            try:
                await writer.drain()
                writer.write_eof()
                assert b"error" in await reader.read()
            except ConnectionError:
                pass
            writer.close()
        assert (await Operator(config)("status"))["name"] == "collector"
        assert (await collector.post("/gateways/evolution/x", message(1))).status_code == 200


async def test_the_socket_works_in_a_folder_too_deep_for_its_path(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    config = collector_config(deep, NOWHERE)
    assert len(str(config.socket_path)) > 107
    async with running(config):
        operator = Operator(config)
        await operator("status")
        assert operator.live


async def test_a_second_daemon_on_one_folder_is_refused(tmp_path: Path) -> None:
    config = collector_config(tmp_path, NOWHERE)
    async with running(config):
        with pytest.raises(StoreBusy):
            async with running(config):
                pass
        assert (await Operator(config)("status"))["name"] == "collector", "its socket is still there"


EVENTS = lines_of(
    connection("open"),
    connection("open"),
    connection("close"),
    connection("open"),
    connection("open", at=1764950400, seq=7),
    json.loads(fixture("baileys/messages.upsert-notify-private-v67.json")),
    json.loads(fixture("baileys/contacts.update-pushname.json")),
    json.loads(fixture("baileys/contacts.update-pushname.json")),
)


@pytest.mark.parametrize("live", [True, False])
async def test_a_file_loaded_twice_adds_nothing(tmp_path: Path, live: bool) -> None:
    config = collector_config(tmp_path, NOWHERE)
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + EVENTS + b"\r\n\n" + b"half a li")
    operator = Operator(config)

    async def load_twice() -> None:
        first = await operator("load", path=str(file))
        assert first["counts"] == {"stored": 8}
        assert (first["bad_lines"], first["lines"]) == (1, 11)
        assert first["bad"][0]["line"] == 11
        assert operator.live is live
        assert operator.progress[-1]["bytes_read"] == file.stat().st_size
        assert (await operator("load", path=str(file)))["counts"] == {"duplicate": 8}
        file.write_bytes(b"\xef\xbb\xbf" + EVENTS + lines_of(connection("open")))
        grown = await operator("load", path=str(file))
        assert grown["counts"] == {"duplicate": 8, "stored": 1}, "only what grew"

    if live:
        async with running(config):
            await load_twice()
    else:
        await load_twice()


async def test_a_post_and_a_line_with_at_and_seq_are_one_fact(tmp_path: Path) -> None:
    config = collector_config(tmp_path, NOWHERE)
    event = connection("open", at=1764950400, seq=7)
    file = tmp_path / "events.jsonl"
    file.write_bytes(lines_of(event))
    async with running(config) as collector:
        assert (await collector.post("/gateways/baileys/bot", json.dumps(event).encode())).status_code == 200
        assert (await Operator(config)("load", path=str(file)))["counts"] == {"duplicate": 1}


async def test_bad_lines_are_told_and_never_stop_a_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "BAD_LINES_TOLD_MAX", 5)
    config = collector_config(tmp_path, NOWHERE)
    good = lines_of(connection("open"))
    bad = [
        b"not json\n",
        b"[1]\n",
        b'{"gateway":"nobody","event":"x"}\n',
        b'{"gateway":7}\n',
        b'{"instance":{"a":1},"event":"x"}\n',
        b"\xff\xfe\n",
    ]
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"".join(line + good for line in bad))
    report = await Operator(config)("load", path=str(file))
    assert report["counts"] == {"stored": 6}
    assert report["bad_lines"] == 6
    assert [line["line"] for line in report["bad"]] == [1, 3, 5, 7, 9]


async def test_a_line_above_the_limit_is_skipped_whole(tmp_path: Path) -> None:

    config = collector_config(tmp_path, NOWHERE, limits=limits(line_bytes_max=200, load_lines_max=2))
    file = tmp_path / "events.jsonl"
    file.write_bytes(
        lines_of(connection("open")) + b'{"x":"' + b"y" * 5000 + b'"}\n' + lines_of(connection("close"))
    )
    operator = Operator(config)
    report = await operator("load", path=str(file))
    assert report["counts"] == {"stored": 2}
    assert report["bad"] == [{"line": 2, "reason": "longer than 200 bytes"}]
    assert report["bytes_read"] == file.stat().st_size


def test_equal_lines_far_apart_keep_places_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "DISTINCT_LINES_MAX", 3)
    lines = [b"a", b"a", b"b", b"c", b"d", b"a", b"a", b"b"]

    def places() -> list[tuple[str | int, ...]]:
        counter = jsonl._Places()
        return [counter.of(line) for line in lines]

    assert len(set(places())) == len(lines)
    assert places() == places()
