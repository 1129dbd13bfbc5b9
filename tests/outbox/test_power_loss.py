"""The power goes at any write: every acknowledged record is there afterwards, and no settled one waits."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

from outbox import sqlite_claims, sqlite_file
from outbox import sqlite_statements as sql
from outbox.clock import ManualClock
from outbox.sqlite_engine import SqliteEngine
from outbox.store import StoreLimits
from outbox.verdict import Verdict
from tests.outbox.power import Disk, PowerConnection, PowerCut, PowerVfs
from tests.outbox.records import MIB, ended, new
from tests.support.score import Score

CUTS = 40
CUTS_LONG = 1_000
TRANSACTIONS = 60
LIMITS = StoreLimits(reserve_bytes=0)
FULL_SYNC = "PRAGMA synchronous = FULL"


@dataclass
class Said:
    """What callers were told before the cut."""

    waiting: dict[str, bytes] = field(default_factory=dict)
    delivered: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    """Of the transaction that was under way: either is right."""


def work(engine: SqliteEngine, chance: random.Random, said: Said) -> None:
    """Puts in groups, deliveries and checkpoints, each transaction acknowledged after its commit."""
    for number in range(TRANSACTIONS):
        bodies = {
            f"{number}-{k}": chance.randbytes(chance.choice((20, 900, 9_000)))
            for k in range(chance.randint(1, 6))
        }
        said.unsure = set(bodies)
        engine.begin()
        engine.put([new(id_, body) for id_, body in bodies.items()])
        claimed = sqlite_claims.claim(engine, engine.clock.now(), 4, MIB) if chance.random() < 0.5 else []
        said.unsure |= {record.id for record in claimed}
        sqlite_claims.settle(
            engine, [ended(record, Verdict.DELIVERED, engine.clock.now()) for record in claimed]
        )
        engine.commit()
        said.waiting |= bodies
        for record in claimed:
            del said.waiting[record.id]
            said.delivered.add(record.id)
        said.unsure = set()
        if chance.random() < 0.15:
            engine.checkpoint()


@contextlib.contextmanager
def over(disk: Disk) -> Iterator[None]:
    """The store's own code and statements, on that disk."""
    vfs, plain = PowerVfs(disk, "power"), sqlite3.connect

    def connect(path: Path | str, *, uri: bool = False, **more: Any) -> PowerConnection | sqlite3.Connection:
        return plain(path, uri=True, **more) if uri else PowerConnection(Path(path), "power")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect)
        yield
    vfs.unregister()


def run(folder: Path, chance: random.Random, cut_at: int | None) -> tuple[Disk, Said]:
    """Work until the cut or the end."""
    folder.mkdir(parents=True)
    disk, said = Disk(cut_at), Said()
    with over(disk), contextlib.suppress(PowerCut, apsw.Error):
        engine = SqliteEngine(folder, ManualClock(), LIMITS)
        try:
            work(engine, chance, said)
        finally:
            disk.is_off = True
            with contextlib.suppress(PowerCut, apsw.Error):
                engine.close()
    return disk, said


def faults(folder: Path, said: Said) -> list[str]:
    """What is wrong after the start that follows a cut."""
    engine = SqliteEngine(folder, ManualClock(), LIMITS)
    rows = engine.connection.execute("SELECT i.id, o.body FROM ids AS i JOIN outbox AS o USING (rowid)")
    waiting = dict(rows.fetchall())
    seen = {id_ for (id_,) in engine.connection.execute("SELECT id FROM ids WHERE seen_at IS NOT NULL")}
    checked = engine.connection.execute("PRAGMA integrity_check").fetchall()
    depth = engine.ledger.waiting
    engine.close()
    found = [] if checked == [("ok",)] else [f"damaged: {checked[:3]}"]
    if depth != len(waiting):
        found.append(f"the ledger says {depth}, {len(waiting)} wait")
    for id_, body in said.waiting.items():
        if id_ not in said.unsure and waiting.get(id_) != body:
            found.append(f"lost: {id_}" if id_ not in waiting else f"other body: {id_}")
    found += [f"waits again: {id_}" for id_ in said.delivered if id_ in waiting or id_ not in seen]
    known = said.waiting.keys() | said.delivered | said.unsure
    return found + [f"never put: {id_}" for id_ in waiting.keys() - known]


def cuts_of(folder: Path, seeds: Iterable[int]) -> tuple[list[str], int]:
    """A run and a cut at a random step of it for each seed.

    Returns what is wrong afterwards, and how many records were acknowledged in all runs.
    """
    steps = run(folder / "whole", random.Random(0), None)[0].steps
    assert steps > TRANSACTIONS, "the disk saw the work"
    found, told = [], 0
    for seed in seeds:
        chance = random.Random(seed)
        disk, said = run(folder / "live", chance, chance.randint(1, steps))
        told += len(said.waiting) + len(said.delivered)
        disk.leave(folder / "after", chance)
        found += [f"seed {seed}: {fault}" for fault in faults(folder / "after", said)]
        shutil.rmtree(folder / "live")
        shutil.rmtree(folder / "after")
    return found, told


@pytest.mark.parametrize("cuts", [CUTS, pytest.param(CUTS_LONG, marks=pytest.mark.chaos)])
def test_what_was_acknowledged_survives_every_power_cut(
    tmp_path: Path, cuts: int, seed: int, score: Callable[[Score], None]
) -> None:
    print(f"{cuts} power cuts, ZAPLAKE_SEED={seed} and on")
    found, told = cuts_of(tmp_path, range(seed, seed + cuts))
    score(
        Score(
            disaster="power cut, outbox alone",
            rounds=cuts,
            sent=told,
            acknowledged=told,
            kept=told - sum("lost" in fault for fault in found),
            lost=sum("lost" in fault for fault in found),
            doubled=sum("waits again" in fault for fault in found),
            altered=sum("other body" in fault or "never put" in fault for fault in found),
            seed=seed,
        )
    )
    assert not found, found[:10]


def test_the_check_sees_what_a_lower_synchronous_loses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With NORMAL a commit is not synced: if these cuts found nothing, the test above would prove nothing."""
    assert FULL_SYNC in sql.PRAGMAS
    lowered = tuple(p.replace("FULL", "NORMAL") if p == FULL_SYNC else p for p in sql.PRAGMAS)
    monkeypatch.setattr(sql, "PRAGMAS", lowered)
    monkeypatch.setattr(sqlite_file, "_assert_durable", lambda _connection: None)
    found, _told = cuts_of(tmp_path, range(10))
    assert any("lost" in fault for fault in found)
    assert not any("damaged" in fault for fault in found), "NORMAL loses the last commits, not the file"
