"""The collector as a process of its own, to be killed: prints its port once its doors accept.

Arguments: its folder, the backend's URL, and the members of an AmqpConfig as JSON for each broker.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from collector.amqp_config import AmqpConfig
from collector.daemon import Daemon, DaemonState
from tests.collector.running import collector_config


def told(state: DaemonState) -> None:
    if state.state == "ready":
        print(state.port, flush=True)


async def collect(folder: Path, url: str, brokers: tuple[AmqpConfig, ...]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await Daemon(collector_config(folder, url, amqp=brokers)).run(stop, told)


def main() -> None:
    folder, url, *brokers = sys.argv[1:]
    asyncio.run(collect(Path(folder), url, tuple(AmqpConfig(**json.loads(broker)) for broker in brokers)))


if __name__ == "__main__":
    main()
