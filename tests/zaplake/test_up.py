"""``zaplake up`` as a person runs it: one process of everything, asked through its own commands."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx
import psutil
import pytest

from tests.zaplake.processes import STOP_S, Running, post, rows, running, text_message, until, zaplake

pytestmark = pytest.mark.xdist_group("zaplake-up")

BODY_BYTES_MAX = 20_000
"""The backend of these tests refuses larger bodies: that makes dead letters."""
SMALL = {"ZAPLAKE_INGEST_LIMITS_BODY_BYTES_MAX": str(BODY_BYTES_MAX)}


class House:
    """A running ``up`` and its data folder."""

    def __init__(self, process: Running, data_dir: Path) -> None:
        self.process, self.data_dir = process, data_dir
        self.first = process.next_line()
        self.door = f"{self.first['gateways']['evolution']}/loja"

    def ask(self, *arguments: object, env: dict[str, str] | None = None) -> tuple[int, str]:
        done = zaplake(*arguments, "--data-dir", self.data_dir, env=env)
        return done.returncode, done.stdout + done.stderr

    def status(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = httpx.get(f"{self.first['collector']}/status").json()
        return found

    def count(self) -> int:
        return asyncio.run(_count(self.data_dir))

    def postmaster(self) -> int:
        return int((self.data_dir / "postgres" / "postmaster.pid").read_text().split("\n")[0])


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """Not pytest's own folder: each start of pytest closes that to the user that Postgres runs as."""
    folder = Path(tempfile.mkdtemp(prefix="zl"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def house(data_dir: Path) -> Iterator[House]:
    ports = ("--http-port", 0, "--collector-port", 0)
    with running(
        "up", "--json", *ports, "--data-dir", data_dir, log=data_dir / "up.log", env=SMALL
    ) as process:
        yield House(process, data_dir)


def count(data_dir: Path) -> int:
    return int(rows(data_dir, "select count(*) as n from lake.whatsapp_event_logs")[0]["n"])


async def _count(data_dir: Path) -> int:
    """Without the command, for waiting."""
    connection = await asyncpg.connect(f"postgresql://postgres@/postgres?host={data_dir / 'postgres'}")
    try:
        return int(await connection.fetchval("select count(*) from lake.whatsapp_event_logs"))
    finally:
        await connection.close()


def test_the_first_line_says_where_both_doors_are(house: House) -> None:
    assert house.first["state"] == "ready"
    assert httpx.get(f"{house.first['ingest']}/readyz").status_code == 200
    assert httpx.get(f"{house.first['collector']}/healthz").status_code == 200
    assert set(house.first["gateways"]) == {"evolution", "baileys", "waha", "cloudapi"}
    assert house.first["data_dir"] == str(house.data_dir)


def test_a_webhook_is_a_row(house: House) -> None:
    assert post(house.door, text_message("3EB0UP0001")).is_success
    until(house.count)
    found = rows(house.data_dir, "select kind, type, payload from lake.whatsapp_event_logs")
    assert [(row["kind"], row["type"]) for row in found] == [("message", "messages.upsert")]
    assert found[0]["payload"]["message"] == {"conversation": "Oi"}
    chats = "select scope, chat_kind from lake.chats"
    assert until(lambda: rows(house.data_dir, chats)) == [{"scope": "evolution/loja", "chat_kind": "user"}]


def test_what_must_stay_private_is_private(house: House) -> None:
    assert stat.S_IMODE((house.data_dir / "outbox").stat().st_mode) == 0o700
    assert stat.S_IMODE((house.data_dir / "signing-secret").stat().st_mode) == 0o600
    secret = (house.data_dir / "signing-secret").read_text().strip()
    log = house.process.log.read_text()
    assert secret not in log
    assert "5511900000002" not in log
    assert all(json.loads(line)["event"] for line in log.splitlines())


def test_loading_a_file_twice_adds_nothing(house: House, tmp_path: Path) -> None:
    lines = [
        {
            "gateway": "baileys",
            "instance": "bot",
            "event": "messages.upsert",
            "data": baileys_messages(range(5)),
        },
        {
            "gateway": "baileys",
            "instance": "bot",
            "event": "connection.update",
            "data": {"connection": "open"},
        },
    ]
    file = tmp_path / "events.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = house.count()
    code, said = house.ask("collector", "load", file)
    assert (code, "2 lines" in said, "stored 6" in said) == (0, True, True), said
    until(lambda: house.count() == before + 6)
    code, said = house.ask("collector", "load", file)
    assert (code, "stored" in said) == (0, False), said
    assert house.count() == before + 6
    file.write_text("not json\n")
    code, said = house.ask("collector", "load", file)
    assert (code, "line 1 was not loaded" in said) == (1, True)


def baileys_messages(numbers: range) -> dict[str, object]:
    messages = [
        {
            "key": {"remoteJid": "5511900000003@s.whatsapp.net", "fromMe": False, "id": f"3ABA{number:04d}"},
            "messageTimestamp": 1764950400 + number,
            "message": {"conversation": f"line {number}"},
        }
        for number in numbers
    ]
    return {"messages": messages, "type": "notify"}


def test_doctor_finds_all_well_and_a_wrong_secret(house: House) -> None:
    code, said = house.ask("doctor")
    assert (code, "WRONG" in said) == (0, False), said
    code, said = house.ask("doctor", env={"ZAPLAKE_SIGNING_SECRETS": "another-secret-than-theirs"})
    assert code == 1
    assert "WRONG the backend refuses our signing secret" in said
    assert said.count("WRONG") == 1, said


def test_a_second_up_on_the_same_folder_is_refused(house: House) -> None:
    code, said = house.ask("up", "--json", "--http-port", 0, "--collector-port", 0)
    assert code == 1
    assert "a collector already runs on this data folder" in said
    assert httpx.get(f"{house.first['ingest']}/readyz").status_code == 200, "the first one's Postgres goes on"


def test_dead_letters_are_listed_shown_requeued_and_dropped(house: House) -> None:
    assert post(house.door, text_message("3EB0DEAD01", "x" * BODY_BYTES_MAX)).is_success
    assert post(house.door, text_message("3EB0DEAD02", "y" * BODY_BYTES_MAX)).is_success
    until(lambda: house.status()["outbox"]["dead"] == 2)
    assert house.ask("collector", "status")[0] == 1
    letters = json.loads(house.ask("collector", "dead", "list", "--json")[1])
    assert [letter["status"] for letter in letters] == [413, 413]
    ids = [letter["id"] for letter in letters]
    listed = house.ask("collector", "dead", "list", env={"COLUMNS": "80"})[1]
    assert all(identity in listed for identity in ids), "an id that is cut cannot be shown or requeued"
    shown = json.loads(house.ask("collector", "dead", "show", ids[0])[1])
    assert json.loads(shown["body"])["payload"]["key"]["id"] in {"3EB0DEAD01", "3EB0DEAD02"}
    code, said = house.ask("collector", "dead", "drop", ids[0], "--dry-run")
    assert (code, said.splitlines()[0]) == (0, ids[0])
    assert house.status()["outbox"]["dead"] == 2
    assert house.ask("collector", "dead", "drop", ids[0]) == (0, "1 dropped\n")
    code, said = house.ask("collector", "dead", "drop", ids[0])
    assert code == 1, "it is gone"
    assert "no dead letter has that id" in said
    assert house.ask("collector", "dead", "requeue", "--all") == (0, "1 requeued\n")
    until(lambda: house.status()["outbox"]["dead"] == 1)
    assert house.ask("collector", "dead", "drop", "--all") == (0, "1 dropped\n")
    assert house.ask("collector", "dead", "drop")[0] == 2


def test_a_killed_postgres_comes_back_and_nothing_is_lost(house: House) -> None:
    before = house.count()
    os.kill(house.postmaster(), signal.SIGKILL)
    assert post(house.door, text_message("3EB0AWAY01")).is_success, "the outbox does not need Postgres"
    house.process.wait_for("postgres_restarted")
    until(lambda: house.count() == before + 1)


def test_sigterm_stops_cleanly_and_a_restart_finds_everything(house: House) -> None:
    before = house.count()
    assert before > 1
    postmaster = house.postmaster()
    started = time.monotonic()
    assert house.process.stop() == 0
    assert time.monotonic() - started < STOP_S
    assert house.process.wait_for("stopping")
    assert house.process.wait_for("stopped")
    assert not _lives(postmaster), "the last holder stops Postgres"
    assert count(house.data_dir) == before, "lake sql starts it for the moment"
    assert not (house.data_dir / "postgres" / "postmaster.pid").exists()
    code, said = house.ask("doctor", env={"ZAPLAKE_COLLECTOR_BACKEND_URL": house.first["ingest"]})
    assert code == 1
    assert "does not answer" in said
    assert "no collector runs on" in said
    assert "run: zaplake up" in said
    assert house.ask("collector", "status", "--json")[0] == 0, "a stopped collector's file can be asked"


def test_a_killed_up_leaves_a_postgres_that_the_next_one_finds(house: House, tmp_path: Path) -> None:
    assert house.process.process.poll() is not None, "runs after the stop above"
    options = ("--http-port", 0, "--collector-port", 0, "--data-dir", house.data_dir)
    before = count(house.data_dir)
    with running("up", "--json", *options, log=tmp_path / "first.log", env=SMALL) as first:
        again = House(first, house.data_dir)
        assert post(again.door, text_message("3EB0KILL01")).is_success
        postmaster = again.postmaster()
        first.process.kill()
        first.process.wait()
    assert _lives(postmaster)
    with running(
        "up", "--demo", "--seed", 5, "--json", *options, log=tmp_path / "demo.log", env=SMALL
    ) as second:
        demo = House(second, house.data_dir)
        assert demo.postmaster() == postmaster, "found, not started again"
        until(lambda: demo.count() > before + 10)
        until(lambda: demo.status()["totals"].get("duplicate"))
        assert second.stop(signal.SIGINT) == 0
    assert not _lives(postmaster)
    found = rows(
        house.data_dir,
        "select count(*) as n from lake.whatsapp_event_logs where payload::text ~ '3EB0KILL01'",
    )
    assert found == [{"n": 1}], "acknowledged before the kill, stored once"
    kinds = {
        row["kind"] for row in rows(house.data_dir, "select distinct kind from lake.whatsapp_event_logs")
    }
    assert {"message", "connection"} <= kinds


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
