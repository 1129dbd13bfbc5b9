"""A process of its own that fills a store to a depth and measures it there; prints one JSON line."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Final

from outbox.clock import SystemClock
from outbox.record import NewRecord
from outbox.sqlite import SqliteStore, open_sqlite

BODY: Final = b"x" * 300
FILL_BATCH: Final = 5_000
PUTS: Final = 15_000
"""Of one part of a run."""
PARTS: Final = 3
PUT_BATCH: Final = 20
AT_ONCE: Final = 64
CLAIMS: Final = 20
CLAIM_LIMIT: Final = 1_000


def id_of(name: str) -> str:
    """As spread as the real ones: each lands on another page of the index."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


async def fill(store: SqliteStore, depth: int) -> None:
    for start in range((await store.stats()).waiting, depth, FILL_BATCH):
        count = min(FILL_BATCH, depth - start)
        await store.put([NewRecord(id=id_of(f"fill-{start + n}"), body=BODY) for n in range(count)])


async def puts_per_s(store: SqliteStore, run: str, puts: int) -> float:
    """Records a second, from many callers at once; ``run`` is a name that no other run on the file has."""
    numbers = iter(range(0, puts, PUT_BATCH))

    async def caller() -> None:
        for number in numbers:
            await store.put(
                [NewRecord(id=id_of(f"put-{run}-{number + n}"), body=BODY) for n in range(PUT_BATCH)]
            )

    started_s = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
    return puts / (time.perf_counter() - started_s)


async def claim_s(store: SqliteStore) -> float:
    """The best of claiming a batch: what the store needs, not what the machine does besides."""
    took = []
    for _ in range(CLAIMS):
        started_s = time.perf_counter()
        records = await store.claim(now=SystemClock().now(), limit=CLAIM_LIMIT, bytes_max=2**30)
        took.append(time.perf_counter() - started_s)
        await store.release(records)
    return min(took)


def peak_kib() -> int:
    """Peak memory of this program; getrusage would tell the parent's, which fork hands on."""
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")
    )
    return int(line.split()[1])


async def measure(folder: Path, depth: int, puts: int) -> dict[str, float]:
    """Fills the store up to the depth where it has less; then start, claims and puts there."""
    store = await open_sqlite(folder)
    await fill(store, depth)
    await store.close()
    started_s = time.perf_counter()
    store = await open_sqlite(folder)
    waiting = (await store.stats()).waiting
    start_s = time.perf_counter() - started_s
    assert waiting >= depth
    figures = {
        "start_s": start_s,
        "claim_s": await claim_s(store),
        "puts_per_s": statistics.median(
            [await puts_per_s(store, f"{waiting}-{part}", puts) for part in range(PARTS)]
        ),
        "memory_mib": peak_kib() / 1024,
    }
    await store.close()
    return figures


def measured(folder: Path, depth: int, puts: int = PUTS) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "bench.backlog", str(folder), str(depth), str(puts)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))))
