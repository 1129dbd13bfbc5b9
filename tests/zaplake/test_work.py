"""``zaplake work`` and ``zaplake inbox`` as an operator runs them."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from uuid import UUID

import asyncpg
import httpx

from tests.ingest.inbox.log import write
from tests.zaplake.operating import Operator
from tests.zaplake.processes import running, until

WORK = ("work", "--json", "--work-port", 0)


def asked(dsn: str, query: str) -> object:
    async def ask() -> object:
        connection = await asyncpg.connect(dsn)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(ask())


def add(dsn: str, *payloads: str, kind: str) -> None:
    async def insert() -> None:
        connection = await asyncpg.connect(dsn)
        await write(connection, *payloads, kind=kind, chat_jid="5511900000002@s.whatsapp.net")
        await connection.close()

    asyncio.run(insert())


def test_two_workers_run_the_rules_and_stop_cleanly(dsn: str, tmp_path: Path) -> None:
    env = {"DATABASE_URL": dsn}
    first = running(*WORK, log=tmp_path / "one.log", env=env)
    second = running(*WORK, log=tmp_path / "two.log", env=env)
    with first as one, second as two:
        url = one.next_line()["work"]
        two.next_line()
        until(lambda: httpx.get(f"{url}/readyz").status_code == 200)
        add(dsn, '{"key": {"id": "3EB0", "fromMe": false}, "pushName": "Ana"}', kind="message")
        until(lambda: asked(dsn, "SELECT push_name FROM lake.chats") == "Ana")
        assert "zaplake_inbox_events_total" in httpx.get(f"{url}/metrics").text
        assert one.stop(signal.SIGKILL) != 0
        add(dsn, '{"name": "Ana Prado"}', kind="chat")
        until(lambda: asked(dsn, "SELECT name FROM lake.chats") == "Ana Prado")
        assert two.stop() == 0


def test_the_operators_commands(dsn: str, operator: Operator, tmp_path: Path) -> None:
    env = {"DATABASE_URL": dsn}
    assert "no consumer is known" in operator.run("inbox", "status", env=env).out
    assert operator.run("inbox", "replay", "rules", "--dead", env=env).code == 2
    with running(*WORK, log=tmp_path / "work.log", env=env) as process:
        process.next_line()
        until(lambda: asked(dsn, "SELECT count(*) FROM lake.inbox_cursors") == 64)
        add(dsn, '["not an object"]', kind="chat")
        until(lambda: asked(dsn, "SELECT count(*) FROM lake.inbox WHERE state = 'PROCESSED'") == 1)
        (status,) = json.loads(operator.run("inbox", "status", "--json", env=env).out)
        assert (status["name"], status["lag"]["unread"], status["paused_at"]) == ("rules", 0, None)
        assert json.loads(operator.run("inbox", "failures", "--json", env=env).out) == []
        assert "nothing failed" in operator.run("inbox", "failures", env=env).out
        nothing = operator.run("inbox", "replay", "rules", "--dead", env=env)
        assert (nothing.code, nothing.out) == (0, "nothing is dead\n")
        unknown = operator.run("inbox", "replay", "rules", "--event", str(UUID(int=1)), env=env)
        assert unknown.code == 1
        assert "`zaplake inbox failures` shows" in unknown.err
        said = operator.run("inbox", "replay", "rules", "--since", "2020-01-01T00:00:00Z", env=env)
        assert (said.code, said.out) == (0, "rules reads again from seq 1 on\n")
        assert operator.run("inbox", "pause", "rules", "--reason", "a repair", env=env).code == 0
        paused = operator.run("inbox", "status", env=env)
        assert paused.code == 1
        assert "a repair" in paused.out
        assert operator.run("inbox", "resume", "rules", "--park", env=env).out == "rules goes on\n"
    assert operator.run("inbox", "replay", "rules", env=env).code == 2
    assert operator.run("inbox", "replay", "rules", "--since", "yesterday", env=env).code == 2
    assert "there are: rules" in operator.run("inbox", "pause", "nobody", env=env).err
    assert operator.run("inbox", "pause", "rules", env=env).code == 0
    ours = operator.run("inbox", "forget", "rules", env=env)
    assert (ours.code, "rules belongs to this release" in ours.err) == (1, True)
    assert asked(dsn, "INSERT INTO lake.inbox_consumers (name) VALUES ('old_rules') RETURNING name")
    running_still = operator.run("inbox", "forget", "old_rules", env=env)
    assert (running_still.code, "old_rules is not paused" in running_still.err) == (1, True)
    assert operator.run("inbox", "pause", "old_rules", env=env).code == 0
    assert "old_rules is forgotten" in operator.run("inbox", "forget", "old_rules", env=env).out
    left = json.loads(operator.run("inbox", "status", "--json", env=env).out)
    assert [one["name"] for one in left] == ["rules"]


def test_wrong_settings_are_refused_with_their_name(operator: Operator) -> None:
    env = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}
    said = operator.run("work", "--consumers", "rules,nobody", env=env)
    assert said.code == 2
    assert "name one of: rules" in said.err
    said = operator.run("work", env=env | {"ZAPLAKE_WORK_LIMITS_DRAIN_S_MAX": "1"})
    assert said.code == 2
    assert "work.limits: drain_s_max" in said.err
    assert operator.run("work", env={}).code == 2
