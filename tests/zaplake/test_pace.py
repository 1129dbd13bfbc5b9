"""Paced requeue: which letters are meant, how fast they go, and that a halt stops it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.clock import SystemClock
from outbox.sqlite import open_sqlite
from outbox.verdict import Verdict
from tests.collector.running import eventually
from tests.collector.scripted import SECRET, Reply, Request, ScriptedBackend
from tests.outbox.records import blob_of, end_all, new
from tests.zaplake.operating import Operator, Said
from tests.zaplake.processes import post, running, text_message
from zaplake.pace import Wanted, records_per_s, steps
from zaplake.trouble import UsageTrouble


@pytest.mark.parametrize(
    ("text", "per_s"), [("20/s", 20.0), ("20", 20.0), ("0.5/s", 0.5), (" 30/m ", 0.5), ("1/m", 1 / 60)]
)
def test_a_pace_is_read(text: str, per_s: float) -> None:
    assert records_per_s(text) == pytest.approx(per_s)


@pytest.mark.parametrize(
    "text", ["", "0/s", "-1/s", "fast", "1/h", "nan", "inf", "1e9/s", "999999999/s", "20/s/s"]
)
def test_what_is_no_pace_is_refused(text: str) -> None:
    with pytest.raises(UsageTrouble, match="is no pace"):
        records_per_s(text)


@given(
    ids=st.lists(st.text(max_size=3), max_size=50),
    per_s=st.floats(min_value=0.01, max_value=1_000, allow_nan=False),
)
def test_every_id_goes_once_in_order_and_at_most_one_step_ahead(ids: list[str], per_s: float) -> None:
    made = list(steps(ids, per_s))
    assert [id_ for step in made for id_ in step.ids] == ids
    spent = 0.0
    for step in made:
        assert 1 <= len(step.ids) <= max(1, per_s)
        spent += step.wait_s
    assert spent == pytest.approx(len(ids) / per_s)


def test_a_letter_is_meant_by_texts_in_any_case() -> None:
    letter = {"status": 422, "reason": "Payload: no object", "label": "evolution/Loja message"}
    assert Wanted().takes(letter)
    assert Wanted(reason="payload", label="loja").takes(letter)
    assert Wanted(reason="422 pay").takes(letter)
    assert not Wanted(reason="413").takes(letter)
    assert not Wanted(reason="payload", label="other").takes(letter)
    assert Wanted(reason="gone").takes({**letter, "status": None, "reason": "gone"})


async def test_letters_go_back_by_reason_and_label_at_a_pace_until_shipping_halts(
    tmp_path: Path, operator: Operator
) -> None:
    async def ran(*arguments: object) -> Said:
        return await operator("collector", *arguments)

    def picky(request: Request) -> Reply | None:
        if request.path.startswith("/api/collectors/"):
            return None
        return Reply(400, b"bad json") if b"loja-b" in request.body else Reply(422, b"bad shape")

    here = ("--data-dir", tmp_path / "data")
    async with ScriptedBackend(script=picky) as backend:
        env = {"ZAPLAKE_SIGNING_SECRETS": SECRET.decode(), "ZAPLAKE_COLLECTOR_BACKEND_URL": backend.url}
        options = ("collect", "--json", "--collector-port", 0, *here)
        with running(*options, log=tmp_path / "log", env=env) as collect:
            door = (await asyncio.to_thread(collect.next_line))["collector"]
            for number in range(9):
                instance = "loja-b" if number < 3 else "loja-a"
                url = f"{door}/gateways/evolution/{instance}"
                await asyncio.to_thread(post, url, text_message(f"3EB0PACE{number}", instance=instance))

            async def dead() -> list[dict[str, Any]]:
                _code, out, _err = await ran("dead", "list", "--json", *here)
                return list(json.loads(out))

            async def all_dead() -> bool:
                return len(await dead()) == 9

            await eventually(all_dead, "nine dead letters")
            code, out, _err = await ran("dead", "requeue", "--reason", "400", "--dry-run", *here)
            assert (code, len(out.splitlines())) == (0, 4)
            assert "3 would be requeued; nothing was changed" in out
            code, out, _err = await ran("dead", "list", "--label", "loja-a", "--json", "--limit", 2, *here)
            assert ["loja-a" in letter["label"] for letter in json.loads(out)] == [True, True]
            backend.script = None
            began = time.monotonic()
            code, out, err = await ran("dead", "requeue", "--label", "LOJA-B", "--pace", "2/s", *here)
            assert (code, out) == (0, "3 requeued\n"), err
            assert time.monotonic() - began >= 1.0, "two, a second, one"
            await eventually(lambda: len(backend.stored) == 3, "they are shipped")
            assert len(await dead()) == 6
            backend.script = lambda _request: Reply(401)
            code, out, err = await ran("dead", "requeue", "--all", "--pace", "1/s", *here)
            assert (code, out) == (1, "")
            assert "requeued, then shipping was halted" in err
            assert "it goes on with the rest" in err
            assert 1 <= len(await dead()) < 6
            await asyncio.to_thread(collect.stop)  # its backend is this loop
        code, _out, err = await ran("dead", "requeue", "--all", "--pace", "1/s", *here)
        assert (code, "no collector runs" in err) == (1, True)
        code, out, _err = await ran("dead", "requeue", "--all", *here)
        assert (code, "requeued" in out) == (0, True), "without a pace it works on the file"
        code, _out, err = await ran("dead", "requeue", "--all", "--reason", "x", *here)
        assert (code, "only one of them" in err) == (2, True)


async def test_the_list_goes_through_letters_and_blobs_page_by_page(
    tmp_path: Path, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaplake.cli.dead.PAGE", 3)
    store = await open_sqlite(tmp_path / "data" / "outbox")
    blobs = [blob_of(tmp_path / "spool", b"%d" % number) for number in range(7)]
    await store.put([new(f"{number}", blobs=(blob,)) for number, blob in enumerate(blobs)])
    await end_all(store.blobs, SystemClock(), Verdict.DEAD)
    await end_all(store, SystemClock(), Verdict.DEAD)
    await store.close()
    code, out, err = await operator("collector", "dead", "list", "--json", "--data-dir", tmp_path / "data")
    assert code == 0, err
    wanted = sorted([*map(str, range(7)), *(blob.sha256 for blob in blobs)])
    assert sorted(letter["id"] for letter in json.loads(out)) == wanted
