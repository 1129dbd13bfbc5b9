"""Each command: its help, its exit codes, and errors of two lines that say what to do next."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import httpx
import psutil
import pytest

from contracts.envelope import EVENT_ID_HEADER, EVENT_PATH, SIGNATURE_HEADER
from contracts.signing import sign
from tests.zaplake.operating import Operator, Said
from tests.zaplake.processes import clean_environ, post, running, text_message, until, zaplake
from zaplake.cli import COMMANDS

SECRET = "a-secret-of-this-test"
LEAVES = (
    ("up",), ("serve",), ("collect",), ("db", "upgrade"), ("lake", "sql"), ("lake", "blob"),
    ("lake", "retire"), ("doctor",), ("version",),
    ("collector", "status"), ("collector", "load"), ("collector", "refill"), ("collector", "dead", "list"),
    ("collector", "dead", "show"), ("collector", "dead", "requeue"), ("collector", "dead", "drop"),
    ("collector", "export"), ("collector", "import"), ("alerts", "test"),
    ("gateway", "connect"), ("gateway", "check"),
    ("gateway", "token", "create"), ("gateway", "token", "list"), ("gateway", "token", "revoke"),
    ("work",), ("inbox", "status"), ("inbox", "failures"),
    ("inbox", "replay"), ("inbox", "pause"), ("inbox", "resume"), ("inbox", "forget"),
)  # fmt: skip


Command: TypeAlias = Callable[..., Said]


@pytest.fixture
def command(operator: Operator) -> Command:
    """Runs a command to its end."""
    return operator.run


@pytest.mark.parametrize("leaf", LEAVES, ids=" ".join)
def test_help_exits_0_and_has_an_example(leaf: tuple[str, ...], command: Command) -> None:
    said = command(*leaf, "--help")
    assert said.code == 0
    assert f"Usage: zaplake {' '.join(leaf)}" in said.out
    assert f"zaplake {' '.join(leaf)}" in said.out.split("Examples")[1]


def test_the_list_of_commands_is_complete(command: Command) -> None:
    done = zaplake("--help")
    assert done.returncode == 0
    for name in {leaf[0] for leaf in LEAVES}:
        assert f"│ {name} " in done.stdout
    assert {name for name, _where, _line in COMMANDS} | {"version"} == {leaf[0] for leaf in LEAVES}
    groups = (
        ("collector",),
        ("collector", "dead"),
        ("gateway",),
        ("gateway", "token"),
        ("lake",),
        ("db",),
        ("alerts",),
        ("inbox",),
    )
    for group in groups:
        listed = command(*group, "--help").out
        names = [line.split()[1] for line in listed.splitlines() if line.startswith("│ ") and line[2] != " "]
        assert {(*group, name) for name in names} - set(groups) == {
            leaf for leaf in LEAVES if leaf[:-1] == group
        }


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("version",), 0, ""),
        (("fly",), 2, 'Unknown command "fly"'),
        (("up", "--htp-port", "1"), 2, "Did you mean --http-port"),
        (("up", "--http-port", "many"), 2, "--http-port"),
        (("up", "--http-port", "70000"), 2, "ingest.port (the command line)"),
        (("up", "--http-port", "8080"), 2, "are both 8080"),
        (("lake", "sql"), 2, "QUERY"),
        (("lake", "sql", "select", "1"), 2, "quote what belongs together"),
        (("lake", "sql", "select 1", "--jsn"), 2, "Did you mean --json"),
        (("lake", "sql", "select 1", "--json", "--csv"), 2, "exclude each other"),
        (("lake", "sql", "select 1", "--limit", "0"), 2, "at least 1"),
        (("lake", "sql", "select 1", "--data-dir", "nowhere"), 1, "there is no lake in"),
        (("collector", "status", "--data-dir", "nowhere"), 1, "no collector has kept anything"),
        (("collector", "load", "nowhere.jsonl"), 2, "there is no file nowhere.jsonl"),
        (("collector", "dead", "requeue"), 2, "needs ids or --all"),
        (("serve",), 2, "no Postgres is configured"),
        (("collect",), 2, "no signing secret is set"),
        (("doctor", "--config", "nowhere.toml"), 2, "no settings file nowhere.toml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_exit_codes_and_errors(
    arguments: tuple[str, ...],
    code: int,
    said: str,
    command: Command,
    tmp_path: Path,
) -> None:
    done = command(*arguments)
    assert (done.code, said in done.err) == (code, True), done.err
    if code:
        lines = done.err.splitlines()
        assert len(lines) == 2, done.err
        assert lines[1].startswith("  → ")
        assert not list(tmp_path.iterdir()), "an error leaves nothing behind"


def test_a_pipe_that_closes_is_no_error(dsn: str) -> None:
    command = f"{sys.executable} -m zaplake lake sql 'select generate_series(1, 99999)' --csv | head -1"
    env = clean_environ({"DATABASE_URL": dsn})
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], env=env, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "generate_series\n", "")


def test_lake_sql_shows_rows_to_people_and_machines(dsn: str, command: Command) -> None:
    env = {"DATABASE_URL": dsn}
    query = (
        """select 1 as n, '{"x": 12345678901234567890.50}'::jsonb as j, null as nothing, '[b]x[/b]' as t"""
    )
    assert command("lake", "sql", query, "--json", env=env).out == (
        '[\n{"n":1,"j":{"x": 12345678901234567890.50},"nothing":null,"t":"[b]x[/b]"}\n]\n'
    )
    assert command("lake", "sql", query, "--csv", env=env).out.splitlines() == [
        "n,j,nothing,t",
        '1,"{""x"": 12345678901234567890.50}",,[b]x[/b]',
    ]
    shown = command("lake", "sql", query, env={**env, "COLUMNS": "120"}).out
    assert "NULL" in shown
    assert "[b]x[/b]" in shown
    assert shown.endswith("\n1 row\n")
    listed = command("lake", "sql", f"-- a comment first\n{query}", env={**env, "COLUMNS": "40"}).out
    assert [line.split() for line in listed.splitlines()] == [
        ["──", "row", "1", "──"],
        ["n", "1"],
        ["j", '{"x":', "12345678901234567890.50}"],
        ["nothing", "NULL"],
        ["t", "[b]x[/b]"],
        ["1", "row"],
    ], "four columns in forty characters would be unreadable side by side"
    sha256 = "5e" * 32
    hashes = f"select '{sha256}' as sha256, '{sha256}{sha256}' as twice"
    whole = command("lake", "sql", hashes, env={**env, "COLUMNS": "100"}).out
    assert whole.count(sha256) >= 2, "half a hash cannot be given to `lake blob`"
    assert "…" not in whole
    assert max(map(len, whole.splitlines())) <= 100
    beside = (
        "select '100000001000002@lid' as lid, 'evolution/loja-sp' as scope, now() as since, now() as till"
    )
    table = command("lake", "sql", beside, env={**env, "COLUMNS": "100"}).out
    assert "│ 100000001000002@lid │" in table
    cut = command("lake", "sql", "select generate_series(1, 9) as n", "--json", "--limit", 2, env=env)
    assert json.loads(cut.out) == [{"n": 1}, {"n": 2}]
    assert "only the first 2" in cut.err


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("create table x ()", "read-only"),
        ("delete from lake.whatsapp_event_logs", "read-only"),
        ("select 1; select 2", "one statement"),
        ("selec", "syntax error"),
        ("select * from nowhere", '"nowhere" does not exist'),
        ("  ", "no statement"),
    ],
)
def test_lake_sql_only_reads(statement: str, said: str, dsn: str, command: Command) -> None:
    done = command("lake", "sql", statement, env={"DATABASE_URL": dsn})
    assert (done.code, said in done.err) == (2, True), done.err


def test_lake_blob_fetches_what_was_stored_and_compares_it(folder: Path, command: Command) -> None:
    content = b"picture" * 1_000
    sha256 = hashlib.sha256(content).hexdigest()
    kept = folder / "data" / "blobs" / "kept" / sha256[:2] / sha256
    kept.parent.mkdir(parents=True)
    kept.write_bytes(content)
    out, other = folder / "picture.jpg", folder / "other.jpg"

    def fetched(name: str, out: Path, data: str = "data") -> Said:
        return command("lake", "blob", name, "--out", out, "--data-dir", folder / data)

    nowhere = fetched(sha256, out, "nowhere")
    assert (nowhere.code, "no blobs" in nowhere.err) == (1, True)
    said = fetched(sha256, out)
    assert (said.code, out.read_bytes()) == (0, content)
    assert "7000 bytes, hash right" in said.out
    assert fetched(sha256, out).code == 2
    kept.write_bytes(content[::-1])
    damaged = fetched(sha256, other)
    assert (damaged.code, "other bytes" in damaged.err) == (1, True)
    missing = fetched("0" * 64, other)
    assert (missing.code, "no blob" in missing.err) == (1, True)
    assert fetched("../etc", other).code == 2
    assert sorted(path.name for path in folder.iterdir()) == ["data", "picture.jpg"]


def test_doctor_finds_that_nothing_runs_and_that_a_port_is_taken(folder: Path, command: Command) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        env = {
            "ZAPLAKE_COLLECTOR_PORT": str(port),
            "ZAPLAKE_COLLECTOR_BACKEND_URL": "http://127.0.0.1:1",
            "ZAPLAKE_SIGNING_SECRETS": SECRET,
        }
        done = command("doctor", "--data-dir", folder, env=env)
        assert done.code == 1
        for said in (
            "ok    signing secret",
            "WRONG Postgres of the data folder: there is no lake",
            "WRONG the backend http://127.0.0.1:1 does not answer",
            "WRONG no collector runs on",
            f"WRONG and port {port} of 127.0.0.1 is taken by another program",
        ):
            assert said in done.out
        assert done.out.count("WRONG") == done.out.count("→") == 4
        for option, name in (("--collector-port", "collect"), ("--http-port", "serve")):
            environ = {**env, "DATABASE_URL": "postgresql://postgres@127.0.0.1:1/x"}
            taken = command(name, option, port, "--data-dir", folder, env=environ)
            assert (taken.code, f"port {port} of 127.0.0.1 is taken" in taken.err) == (1, True), taken.err


def test_doctor_finds_that_the_database_is_away(folder: Path, command: Command) -> None:
    env = {
        "DATABASE_URL": "postgresql://somebody:hidden-word@127.0.0.1:1/x",
        "ZAPLAKE_SIGNING_SECRETS": SECRET,
    }
    with running("serve", "--json", "--http-port", 0, log=folder / "log", env=env) as serve:
        url = serve.next_line()["ingest"]
        done = command("doctor", "--data-dir", folder, env={**env, "ZAPLAKE_COLLECTOR_BACKEND_URL": url})
        assert done.code == 1
        assert "WRONG Postgres of DATABASE_URL: cannot reach Postgres" in done.out
        assert "WRONG the backend cannot commit: its Postgres is away" in done.out
        assert "ok    the backend accepts our signing secret" in done.out
        assert serve.stop() == 0
    for name in ("up", "db"):
        more = ("upgrade",) if name == "db" else ("--http-port", "0", "--collector-port", "0")
        refused = command(name, *more, "--data-dir", folder, env=env)
        assert (refused.code, "cannot reach Postgres" in refused.err) == (1, True)
        assert "hidden-word" not in refused.err + done.out
        assert len(refused.err.splitlines()) == 2, refused.err


def test_doctor_finds_another_program_at_the_backends_port(folder: Path, command: Command) -> None:
    with running("serve", "--json", "--http-port", 0, log=folder / "log", env={
        "DATABASE_URL": "postgresql://postgres@127.0.0.1:1/x", "ZAPLAKE_SIGNING_SECRETS": SECRET,
    }) as serve:  # fmt: skip
        url = f"{serve.next_line()['ingest']}/not-here"
        done = command("doctor", "--data-dir", folder, env={"ZAPLAKE_COLLECTOR_BACKEND_URL": url})
        assert f"WRONG another program answers at {url}" in done.out


def test_doctor_knows_a_collector_of_another_folder_at_its_port(folder: Path, command: Command) -> None:
    env = {"ZAPLAKE_SIGNING_SECRETS": SECRET, "ZAPLAKE_COLLECTOR_BACKEND_URL": "http://127.0.0.1:1"}
    options = ("--collector-port", 0, "--data-dir", folder / "its")
    with running("collect", "--json", *options, log=folder / "log", env=env) as collect:
        port = collect.next_line()["collector"].rpartition(":")[2]
        env = {**env, "ZAPLAKE_COLLECTOR_PORT": port}
        found = command("doctor", "--data-dir", folder / "ours", env=env)
        assert f"WRONG and port {port} of 127.0.0.1 is taken by another zaplake\n" in found.out
        assert "→ if that is your collector, name its folder with --data-dir" in found.out
        assert command("doctor", "--data-dir", folder / "its", env=env).out.count("is taken") == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999999", "http://[::1"])
def test_an_address_that_cannot_be_read_is_a_wrong_setting(url: str, folder: Path, command: Command) -> None:
    for verb in ("doctor", "collect"):
        env = {"ZAPLAKE_COLLECTOR_BACKEND_URL": url, "ZAPLAKE_SIGNING_SECRETS": SECRET}
        done = command(verb, "--data-dir", folder, env=env)
        assert (done.code, "backend_url: an http(s) URL" in done.err) == (2, True), done


def test_doctor_goes_on_with_an_address_that_is_none(folder: Path, command: Command) -> None:
    url = "http://xn--a"
    done = command("doctor", "--data-dir", folder, env={"ZAPLAKE_COLLECTOR_BACKEND_URL": url})
    assert (done.code, done.err) == (1, "")
    assert f"WRONG the backend {url} does not answer: " in done.out
    assert "gateway: not asked" in done.out


def signed(url: str, event_id: str) -> httpx.Response:
    body = json.dumps({"type": "messages.upsert", "chat_jid": None, "payload": {"n": event_id}}).encode()
    headers = {
        EVENT_ID_HEADER: event_id,
        SIGNATURE_HEADER: sign(SECRET.encode(), event_id, body),
        "Content-Type": "application/json",
    }
    return httpx.post(f"{url}{EVENT_PATH}", content=body, headers=headers, timeout=10, trust_env=False)


def test_serve_runs_several_workers_on_one_port_and_none_is_left_behind(dsn: str, folder: Path) -> None:
    env = {"DATABASE_URL": dsn, "ZAPLAKE_SIGNING_SECRETS": SECRET}
    assert zaplake("db", "upgrade", env=env).stdout == "the schema is up to date: DATABASE_URL\n"
    options = ("serve", "--workers", 2, "--http-port", 0, "--json")
    with running(*options, log=folder / "log", env=env) as serve:
        url = serve.next_line()["ingest"]
        workers = psutil.Process(serve.process.pid).children()
        assert len(workers) == 2
        answers = [signed(url, f"00000000-0000-5000-8000-{number:012d}").status_code for number in range(8)]
        assert answers == [201] * 8
        assert signed(url, "00000000-0000-5000-8000-000000000001").status_code == 200
        first, last = sorted(workers, key=lambda worker: worker.pid)
        last.suspend()
        serve.process.terminate()
        until(lambda: not first.is_running() or first.status() == psutil.STATUS_ZOMBIE)
        last.resume()
        assert serve.process.wait(20) == 0
        assert not any(worker.is_running() for worker in workers)
    with running(*options, log=folder / "log", env=env) as serve:
        serve.next_line()
        workers = psutil.Process(serve.process.pid).children()
        workers[0].kill()
        assert serve.process.wait(20) == 1, "one that dies ends all"
        assert "a worker of `zaplake serve` ended" in (folder / "log").read_text()
        assert not any(worker.is_running() for worker in workers)
    with running(*options, log=folder / "log", env=env) as serve:
        serve.next_line()
        workers = psutil.Process(serve.process.pid).children()
        serve.process.kill()
        until(lambda: not any(w.is_running() and w.status() != psutil.STATUS_ZOMBIE for w in workers))


def test_a_file_loaded_without_a_collector_waits_and_says_so(folder: Path, command: Command) -> None:
    file = folder / "events.jsonl"
    file.write_text(
        '{"gateway": "baileys", "instance": "b", "event": "chats.update", "data": {"id": "1"}}\n{\n'
    )
    done = command("collector", "load", file, "--data-dir", folder)
    assert (done.code, "line 2 was not loaded" in done.out) == (1, True), done
    assert "→ a line is one JSON object" in done.out
    assert f"they wait in {folder}/outbox for the next `zaplake up`" in done.out
    for env, said in (
        ({}, "choose another with"),
        ({"ZAPLAKE_SIGNING_SECRETS": SECRET}, "name another with"),
    ):
        refused = command("collector", "load", file, "--data-dir", file, env=env)
        assert (refused.code, f"{said} --data-dir" in refused.err) == (1, True), refused.err


def test_collect_works_while_the_backend_is_away(folder: Path) -> None:
    env = {"ZAPLAKE_SIGNING_SECRETS": SECRET, "ZAPLAKE_COLLECTOR_BACKEND_URL": "http://127.0.0.1:1"}
    options = ("--data-dir", folder)
    with running(
        "collect", "--json", "--collector-port", 0, *options, log=folder / "log", env=env
    ) as collect:
        first = collect.next_line()
        assert first["gateways"]["evolution"] == f"{first['collector']}/gateways/evolution"
        assert post(f"{first['gateways']['evolution']}/loja", text_message("3EB0COLLECT1")).status_code == 200
        alive = json.loads(zaplake("collector", "status", "--json", *options, env=env).stdout)
        assert (alive["running"], alive["outbox"]["waiting"]) == (True, 1)
        assert collect.stop() == 0
        assert collect.wait_for("stopped")
    stopped = zaplake("collector", "status", "--json", *options)
    document = json.loads(stopped.stdout)
    assert (stopped.returncode, document["running"], document["outbox"]["waiting"]) == (0, False, 1)
    assert (document["name"], document["backend_url"]) == (None, None), "this shell's are not the collector's"
    shown = zaplake("collector", "status", *options).stdout
    assert "does not run" in shown
    assert "shipping to" not in shown
    assert zaplake("collector", "dead", "list", "--json", *options).stdout == "[]\n"


def test_doctor_takes_a_machine_for_what_it_runs_and_shows_what_its_collector_says(
    dsn: str, folder: Path, command: Command
) -> None:
    serving, collecting = folder / "serving", folder / "collecting"
    for made in (serving, collecting):
        made.mkdir()
    there = {"DATABASE_URL": dsn, "ZAPLAKE_SIGNING_SECRETS": SECRET}
    with running("serve", "--json", "--http-port", 0, log=serving / "log", env=there) as serve:
        url = serve.next_line()["ingest"]
        here = {"ZAPLAKE_SIGNING_SECRETS": SECRET, "ZAPLAKE_COLLECTOR_BACKEND_URL": url}
        done = command("doctor", "--data-dir", serving, env={**there, **here})
        assert (done.code, "ok    no collector here" in done.out) == (0, True), done.out
        options = ("--data-dir", collecting)
        with running(
            "collect", "--json", "--collector-port", 0, *options, log=collecting / "log", env=here
        ) as collect:
            door = collect.next_line()["collector"]
            done = command("doctor", *options, env=here)
            assert (done.code, "ok    no Postgres here" in done.out) == (0, True), done.out
            assert post(f"{door}/gateways/evolutoin/loja", text_message("3EB0TYPO1")).status_code == 404
            done = command("doctor", *options, env=here)
            assert (done.code, done.out.count("WRONG")) == (1, 1), done.out
            said = "door.no_gateway: events are lost: a webhook URL names none of evolution, baileys"
            assert f"WRONG {said}" in done.out
            shown = command("collector", "status", *options, env={**here, "COLUMNS": "200"}).out
            assert said in shown
            assert "(1 time since" in shown
