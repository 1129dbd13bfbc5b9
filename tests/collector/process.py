"""The collector as a process of its own, to be killed: prints its port once its doors accept."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from collector.daemon import Daemon, DaemonState
from tests.collector.running import collector_config


def told(state: DaemonState) -> None:
    if state.state == "ready":
        print(state.port, flush=True)


async def main(folder: Path, url: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await Daemon(collector_config(folder, url)).run(stop, told)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
