"""A process that puts and ships in one outbox and says what was acknowledged, until somebody kills it.

``python -m tests.support.put_forever FOLDER SEED``: writes ``put ID`` after a put returned and
``gone ID`` before a record is settled as delivered; every body can be told from its id.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from outbox.record import NewRecord
from outbox.sqlite import SqliteStore, open_sqlite
from outbox.store import Settlement
from outbox.verdict import Verdict

WORKERS: Final = 64


def body_of(id_: str) -> bytes:
    """The only right body of an id, from a few to some ten thousand bytes."""
    seed = hashlib.sha256(id_.encode()).digest()
    return seed * (1 + seed[0] * (seed[1] % 6))


def say(word: str, id_: str) -> None:
    """One write each: what was said is out when the process dies."""
    os.write(1, f"{word} {id_}\n".encode())


async def put_on(store: SqliteStore, worker: int, seed: int) -> None:
    chance = random.Random(f"{seed}/{worker}")
    number = 0
    while True:
        ids = [f"{seed}-{worker}-{number + k}" for k in range(chance.randint(1, 3))]
        number += len(ids)
        await store.put([NewRecord(id=id_, body=body_of(id_)) for id_ in ids])
        for id_ in ids:
            say("put", id_)


async def ship_on(store: SqliteStore) -> None:
    while True:
        now = datetime.now(UTC)
        records = await store.claim(now=now, limit=20, bytes_max=10**7)
        for record in records:
            say("gone", record.id)
        await store.settle(
            [Settlement(rowid=r.rowid, lease=r.lease, verdict=Verdict.DELIVERED, now=now) for r in records]
        )
        await asyncio.sleep(0.005)


async def main(folder: Path, seed: int) -> None:
    store = await open_sqlite(folder)
    say("open", store.epoch)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ship_on(store))
        for worker in range(WORKERS):
            tasks.create_task(put_on(store, worker, seed))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
