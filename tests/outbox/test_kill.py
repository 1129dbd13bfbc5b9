"""kill -9 at random moments with 64 puts on their way: what was acknowledged is there, with its body."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from outbox.clock import SystemClock
from outbox.record import NewRecord, PutOutcome
from outbox.sqlite import open_sqlite
from outbox.store import Store
from tests.outbox.records import claim
from tests.support.put_forever import body_of
from tests.support.score import Score

ROOT = Path(__file__).parents[2]
KILLS = 10
KILLS_LONG = 40


def run_and_kill(folder: Path, seed: int, chance: random.Random) -> tuple[set[str], set[str]]:
    """Ids that were acknowledged, and ids that left, before the process was killed."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.put_forever", str(folder), str(seed)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        assert first.startswith("open "), "the child did not start"
        killer = threading.Timer(chance.uniform(0.005, 0.25), child.kill)
        killer.start()
        said = [line.split() for line in child.stdout]
        killer.join()
    words = [line for line in said if len(line) == 2]
    return {id_ for word, id_ in words if word == "put"}, {id_ for word, id_ in words if word == "gone"}


async def faults(store: Store, acknowledged: Iterable[str], left: Iterable[str]) -> list[str]:
    """What is wrong in the store: each acknowledged id waits with its body, or is known to have left."""
    waiting: dict[str, bytes] = {}
    found = []
    clock = SystemClock()
    while records := await claim(store, clock):
        for record in records:
            if record.id in waiting:
                found.append(f"twice: {record.id}")
            waiting[record.id] = record.body
    left = set(left)
    for id_ in acknowledged:
        if id_ in waiting:
            if waiting[id_] != body_of(id_):
                found.append(f"other body: {id_}")
        elif id_ not in left:
            found.append(f"lost: {id_}")
        else:
            (again,) = await store.put([NewRecord(id=id_, body=b"")])
            if again.outcome is not PutOutcome.DUPLICATE:
                found.append(f"forgotten: {id_}")
    found += [f"body of a stranger: {id_}" for id_, body in waiting.items() if body != body_of(id_)]
    return found


async def kill_often(folder: Path, kills: int, seed: int, score: Callable[[Score], None]) -> None:
    print(f"ZAPLAKE_SEED={seed}")
    chance = random.Random(seed)
    acknowledged: set[str] = set()
    left: set[str] = set()
    for n in range(kills):
        put, gone = run_and_kill(folder, n, chance)
        acknowledged |= put
        left |= gone
        store = await open_sqlite(folder)
        found = await faults(store, acknowledged, left)
        stats = await store.stats()
        await store.close()
        if found:
            break
    score(
        Score(
            disaster="kill -9, outbox alone",
            rounds=n + 1,
            sent=stats.waiting + stats.seen,
            acknowledged=len(acknowledged),
            kept=stats.waiting + stats.seen,
            lost=sum(fault.startswith("lost") for fault in found),
            doubled=sum(fault.startswith(("twice", "forgotten")) for fault in found),
            altered=sum("body" in fault for fault in found),
            seed=seed,
        )
    )
    assert found == []
    assert len(acknowledged) > 10 * kills, "too few were acknowledged to say anything"
    assert left


async def test_nothing_acknowledged_is_lost_by_kill_9(
    tmp_path: Path, seed: int, score: Callable[[Score], None]
) -> None:
    await kill_often(tmp_path / "outbox", KILLS, seed, score)


@pytest.mark.chaos
async def test_nothing_acknowledged_is_lost_by_many_kills(
    tmp_path: Path, seed: int, score: Callable[[Score], None]
) -> None:
    await kill_often(tmp_path / "outbox", KILLS_LONG, seed, score)


async def test_the_checker_sees_a_loss_a_swap_and_an_oblivion(tmp_path: Path) -> None:
    store = await open_sqlite(tmp_path / "outbox")
    await store.put([NewRecord(id="fine", body=body_of("fine")), NewRecord(id="swapped", body=b"else")])
    found = await faults(store, ["fine", "swapped", "lost", "left"], ["left"])
    assert sorted(set(found)) == [
        "body of a stranger: swapped",
        "forgotten: left",
        "lost: lost",
        "other body: swapped",
    ]
    await store.close()
