"""A test's own worker of the inbox, which dies or stands still between effect and commit when it is asked to.

``python -m tests.support.working --dsn …`` prints a line once it runs. SIGUSR1 arms SIGKILL, SIGUSR2 SIGSTOP.
With ``--apart`` its effects do not go through the transaction: the mistake that the tests must see.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Sequence

import asyncpg

from contracts.inbox import Rule, Transaction
from ingest.inbox.config import InboxConfig
from ingest.inbox.consumer import Consumer
from ingest.inbox.runner import Runner
from tests.ingest.inbox.running import COUNT, count
from zaplake.logs import configure
from zaplake.process import run_until_stopped
from zaplake.settings import LogSettings

IDLE_S_MAX = 1.0
ARMED_BY = {signal.SIGUSR1: signal.SIGKILL, signal.SIGUSR2: signal.SIGSTOP}


async def work(stop: asyncio.Event, dsn: str, *, apart: bool) -> None:
    armed: list[signal.Signals] = []
    for asked, fate in ARMED_BY.items():
        asyncio.get_running_loop().add_signal_handler(asked, armed.append, fate)
    own = await asyncpg.connect(dsn)

    async def write(transaction: Transaction, effects: Sequence[int]) -> None:
        if apart:
            await own.execute(COUNT, effects)
        else:
            await count(transaction, effects)
        if armed:
            os.kill(os.getpid(), armed.pop())

    rule = Rule(name="counting", decide=lambda event: (event.seq,), apply=write)
    config = InboxConfig(dsn=dsn, poll_ms=5, batch_events=50, idle_s_max=IDLE_S_MAX, reconnect_pause_s=0.05)
    print("working", flush=True)
    await Runner(config, [Consumer(name="rules", rules=[rule])]).run(stop)
    await own.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.support.working")
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--apart", action="store_true")
    asked = parser.parse_args()
    configure(LogSettings(level="error", format="json"))
    run_until_stopped(lambda stop: work(stop, asked.dsn, apart=asked.apart))


if __name__ == "__main__":
    main()
