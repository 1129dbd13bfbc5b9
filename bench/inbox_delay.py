"""How late a rule's effect is after its webhook at 200 events/s, and how soon a killed worker is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

import asyncpg
import uvloop

from bench import postgres, requests
from bench.harness import Line, Options, in_turn, say
from bench.serve import running
from contracts.inbox import LoggedEvent, Rule, Transaction
from ingest.inbox.config import InboxConfig
from ingest.inbox.consumer import Consumer
from ingest.inbox.runner import Runner
from zaplake.logs import configure
from zaplake.settings import LogSettings

PER_S: Final = 200
CLIENTS: Final = 20
GOAL_MS: Final = 250.0
TAKEOVER_MS: Final = 1000.0
LOOK_S: Final = 0.002
_DEADLINE_S: Final = 30.0
_Apply: TypeAlias = Callable[[Transaction, Sequence[Any]], Coroutine[Any, Any, None]]
_EFFECTS: Final = "CREATE TABLE effects (event_id uuid)"
_SEEN: Final = "DELETE FROM effects RETURNING event_id"


def _decide(event: LoggedEvent) -> Sequence[Any]:
    return (event.event_id,)


async def _apply(transaction: Transaction, effects: Sequence[Any]) -> None:
    await transaction.execute("INSERT INTO effects SELECT unnest($1::uuid[])", effects)


async def _hold(_transaction: Transaction, _effects: Sequence[Any]) -> None:
    print("holding", flush=True)
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _rules(dsn: str, apply: _Apply) -> AsyncIterator[None]:
    """A runner with the product's own settings."""
    consumer = Consumer(name="bench", rules=[Rule(name="bench", decide=_decide, apply=apply)])
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(Runner(InboxConfig(dsn=dsn), [consumer]).run(stop))
        yield
        stop.set()


class _Door:
    """Posts signed events at a pace, and remembers when each was sent."""

    def __init__(self, port: int, run: str) -> None:
        self._port, self._run = port, run
        self._idle: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.sent_at: dict[str, float] = {}

    async def open(self) -> None:
        for _ in range(CLIENTS):
            self._idle.put_nowait(await asyncio.open_connection("127.0.0.1", self._port))

    async def post(self, number: int) -> None:
        """One event; returns after its answer."""
        request = requests.single(self._run, iter([number]), 1)
        reader, writer = await self._idle.get()
        self.sent_at[requests.event_id(self._run, number)] = asyncio.get_running_loop().time()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 2"), head
        (length,) = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        self._idle.put_nowait((reader, writer))


async def _delays_ms(dsn: str, port: int, seconds: float, run: str) -> list[float]:
    """From the first byte sent to the moment when another connection sees the effect, of each event."""
    loop, door, delays = asyncio.get_running_loop(), _Door(port, run), list[float]()
    connection = await asyncpg.connect(dsn)
    await connection.execute(_EFFECTS)
    await door.open()
    count, began = round(PER_S * seconds), loop.time()

    async def look() -> None:
        while len(delays) < count:
            for row in await connection.fetch(_SEEN):
                delays.append((loop.time() - door.sent_at[str(row[0])]) * 1000)
            await asyncio.sleep(LOOK_S)

    async with _rules(dsn, _apply), asyncio.TaskGroup() as tasks:
        tasks.create_task(look())
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / PER_S - loop.time()))
            tasks.create_task(door.post(number))
    await connection.close()
    return sorted(delays)


@contextlib.asynccontextmanager
async def _writer_elsewhere(server_dsn: str) -> AsyncIterator[None]:
    """A transaction that has written, in another database of the server, open for the whole run."""
    connection = await asyncpg.connect(server_dsn)
    await connection.execute("BEGIN")
    await connection.execute("CREATE TEMP TABLE written AS SELECT 1 AS one")
    yield
    await connection.close()


def delay(server_dsn: str, options: Options) -> list[Line]:
    """p99 from webhook to effect, alone and beside a writer elsewhere; and the takeover after SIGKILL."""
    configure(LogSettings(level="warning"))

    def p99_ms(turn: str, *, is_beside: bool) -> float:
        async def measured(dsn: str, port: int) -> list[float]:
            async with _writer_elsewhere(server_dsn) if is_beside else contextlib.nullcontext():
                return await _delays_ms(dsn, port, options.seconds, turn)

        name = f"delay{is_beside:d}{turn}"
        with postgres.database(server_dsn, name) as dsn, running("ingest", "--dsn", dsn) as server:
            found = uvloop.run(measured(dsn, server.ready.port))
        say(f"  # p50 {found[len(found) // 2]:.0f} ms, most {found[-1]:.0f} ms")
        return found[len(found) * 99 // 100]

    def takeover_ms(turn: str) -> float:
        with postgres.database(server_dsn, f"takeover{turn}") as dsn:
            return uvloop.run(_takeover_ms(dsn))

    alone, beside, takeover = in_turn(
        {
            "webhook to effect, p99 ms": lambda turn: p99_ms(turn, is_beside=False),
            "webhook to effect beside a writer elsewhere, p99 ms": lambda turn: p99_ms(turn, is_beside=True),
            "takeover after SIGKILL, ms": takeover_ms,
        },
        options.runs,
    ).values()
    return [
        Line(name="inbox_delay_p99_ms", ours=alone, reference=GOAL_MS, goal=1, at_most=True),
        Line(name="inbox_delay_p99_ms_beside_writer", ours=beside, reference=GOAL_MS, goal=1, at_most=True),
        Line(name="inbox_takeover_ms", ours=takeover, reference=TAKEOVER_MS, goal=1, at_most=True),
    ]


async def _takeover_ms(dsn: str) -> float:
    """Another worker holds every shard in the middle of a batch, and is killed."""
    loop, connection = asyncio.get_running_loop(), await asyncpg.connect(dsn)
    await connection.execute(_EFFECTS)
    await connection.execute(
        "INSERT INTO lake.whatsapp_event_logs (event_id, type, payload, shard) "
        "SELECT gen_random_uuid(), 't', '{}', 7 FROM generate_series(1, 100)"
    )
    command = [sys.executable, "-m", "bench.inbox_delay", dsn]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == b"holding\n"
        async with _rules(dsn, _apply), asyncio.timeout(_DEADLINE_S):
            await asyncio.sleep(0.5)
            holder.kill()
            killed_at = loop.time()
            while not await connection.fetch(_SEEN):
                await asyncio.sleep(LOOK_S)
            took_ms = (loop.time() - killed_at) * 1000
    await connection.close()
    return took_ms


async def _hold_for_ever(dsn: str) -> None:
    async with _rules(dsn, _hold):
        await asyncio.Event().wait()


if __name__ == "__main__":
    configure(LogSettings(level="error"))
    uvloop.run(_hold_for_ever(sys.argv[1]))
