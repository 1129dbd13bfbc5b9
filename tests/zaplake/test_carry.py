"""``collector export`` and ``import`` as their users run them."""

from __future__ import annotations

import gzip
import json
import stat
from pathlib import Path

import pytest

from outbox.record import NewRecord
from outbox.sqlite import open_sqlite
from tests.outbox.records import blob_of
from tests.zaplake.operating import Operator
from tests.zaplake.processes import post, running, text_message
from zaplake import carry

SECRET = {
    "ZAPLAKE_SIGNING_SECRETS": "a-secret-of-this-test",
    "ZAPLAKE_COLLECTOR_BACKEND_URL": "http://127.0.0.1:1",
}


def line(number: int, **more: object) -> bytes:
    record = {
        "id": f"00000000-0000-5000-8000-{number:012d}",
        "state": "waiting",
        "created_at": "2026-01-31T12:00:00+00:00",
        "body": "{}",
        **more,
    }
    return json.dumps(record).encode() + b"\n"


@pytest.mark.parametrize("name", ["outbox.jsonl", "outbox.jsonl.gz"])
async def test_an_outbox_is_carried_from_a_living_collector_to_another(
    tmp_path: Path, name: str, operator: Operator
) -> None:
    file, here, there = tmp_path / name, ("--data-dir", tmp_path / "here"), ("--data-dir", tmp_path / "there")
    options = ("collect", "--json", "--collector-port", 0, *here)
    with running(*options, log=tmp_path / "log", env=SECRET) as collect:
        door = collect.next_line()["collector"]
        for number in range(3):
            assert (
                post(f"{door}/gateways/evolution/loja", text_message(f"3EB0CARRY{number}")).status_code == 200
            )
        done = await operator("collector", "export", file, *here)
        assert (done.code, done.out) == (0, f"{file}: 3 waiting, 0 dead\n"), done.err
        refused = await operator("collector", "export", file, *here)
        assert (refused.code, "already a file" in refused.err) == (2, True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    content = gzip.decompress(file.read_bytes()) if name.endswith(".gz") else file.read_bytes()
    assert [json.loads(record)["state"] for record in content.splitlines()] == ["waiting"] * 3
    assert sorted(path.name for path in tmp_path.glob(f"{name}*")) == [name], "no draft is left"
    done = await operator("collector", "import", file, *there)
    assert (done.code, done.out) == (0, "3 lines: stored 3\n"), done.err
    again = await operator("collector", "import", file, *there)
    assert again.out == "3 lines: duplicate 3\n"
    status = json.loads((await operator("collector", "status", "--json", *there)).out)
    assert status["outbox"]["waiting"] == 3
    only = await operator("collector", "export", tmp_path / "dead.jsonl", "--dead", *there)
    assert only.out == f"{tmp_path / 'dead.jsonl'}: 0 dead\n"


async def test_blobs_are_carried_in_a_folder_beside_the_file(tmp_path: Path, operator: Operator) -> None:
    file, here, there = (
        tmp_path / "all.jsonl",
        ("--data-dir", tmp_path / "here"),
        ("--data-dir", tmp_path / "x"),
    )
    store = await open_sqlite(tmp_path / "here" / "outbox")
    blobs = [blob_of(tmp_path / "spool", content) for content in (b"picture", b"sound")]
    event_id = "00000000-0000-5000-8000-000000000001"
    await store.put([NewRecord(id=event_id, body=b"{}", blobs=tuple(blobs))])
    await store.close()
    done = await operator("collector", "export", file, *here)
    assert (done.code, done.out) == (0, f"{file}: 1 waiting, 0 dead\n"), done.err
    folder = tmp_path / "all.jsonl.blobs"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        blobs[0].sha256: b"picture",
        blobs[1].sha256: b"sound",
    }
    (folder / blobs[1].sha256).unlink()
    done = await operator("collector", "import", file, *there)
    assert done.code == 0
    assert f"1 file not in {folder}" in done.out
    status = json.loads((await operator("collector", "status", "--json", *there)).out)
    assert (status["outbox"]["waiting"], status["outbox"]["blobs_waiting"]) == (1, 1)
    shown = (await operator("collector", "status", *there)).out
    assert "1 waiting, 0 dead" in shown


async def test_bad_lines_and_a_file_cut_short_are_told_and_the_rest_is_brought(
    tmp_path: Path, operator: Operator
) -> None:
    file, here = tmp_path / "some.jsonl", ("--data-dir", tmp_path / "here")
    file.write_bytes(line(1) + b"half a li\n\n" + line(2, id="x") + line(3))
    done = await operator("collector", "import", file, *here)
    assert done.code == 1
    assert "5 lines: stored 2" in done.out
    assert "line 2 is no record: not JSON" in done.out
    assert "line 4 is no record: id" in done.out
    cut = tmp_path / "cut.jsonl.gz"
    whole = gzip.compress(b"".join(line(number) for number in range(4, 2_000)))
    cut.write_bytes(whole[: len(whole) // 2])
    short = await operator("collector", "import", cut, *here)
    assert (short.code, "cannot be read behind line" in short.err) == (1, True), short.err
    cut.write_bytes(whole)
    assert "1996 lines: duplicate " in (await operator("collector", "import", cut, *here)).out
    missing = await operator("collector", "import", tmp_path / "nowhere", *here)
    assert (missing.code, "there is no file" in missing.err) == (2, True)
    nobody = await operator("collector", "export", tmp_path / "x", "--data-dir", tmp_path / "nowhere")
    assert (nobody.code, "no collector has kept anything" in nobody.err) == (1, True)


async def test_an_error_says_only_itself_and_what_helps(operator: Operator, tmp_path: Path) -> None:
    here = ("--data-dir", tmp_path)
    file = tmp_path / "one.jsonl"
    file.write_bytes(line(1))
    assert (await operator("collector", "import", file, *here)).out == "1 line: stored 1\n"
    nowhere = await operator("collector", "export", tmp_path / "no" / "x.jsonl", *here)
    first, second = nowhere.err.splitlines()
    assert first == f"zaplake: cannot write {tmp_path}/no/x.jsonl: No such file or directory"
    assert (nowhere.code, second) == (1, "  → name a place in a folder of your own")


def test_a_line_above_the_limit_is_skipped_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "LINE_BYTES_MAX", 300)
    file = tmp_path / "some.jsonl"
    file.write_bytes(line(1) + line(2, body="x" * 5_000) + line(3))
    brought = carry.Brought()
    with file.open("rb") as opened:
        numbers = [number for number, _, _ in carry._numbered(opened, brought)]
    assert numbers == [1, 3]
    assert brought.bad == [(2, "longer than 300 bytes")]
