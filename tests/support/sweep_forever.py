"""A process that sweeps an outbox's meter in small steps until all is counted, or until somebody kills it.

``python -m tests.support.sweep_forever FOLDER``: writes ``open``, and ``done`` when nothing is left.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

from outbox.clock import SystemClock
from outbox.sqlite import open_sqlite


async def main(folder: Path) -> None:
    clock = SystemClock()
    store = await open_sqlite(folder, clock)
    os.write(1, b"open\n")
    while (await store.sweep(before=clock.now() + timedelta(days=1), limit=5)).looked:
        pass
    os.write(1, b"done\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
