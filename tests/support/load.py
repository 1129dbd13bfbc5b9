"""A driver that keeps many requests in flight against servers that die, and fills the ledger of answers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.system.ledger import Ledger

ANSWER_S_MAX: Final = 15.0
RECONNECT_S: Final = 0.2
"""After a failure; less, and the machine is busy with refusing."""
RECONNECT_SHARE: Final = 0.02
"""Of the events: a connection is made anew after it, so that a process that just started gets its share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One event to send: its mark in the ledger, the payload that the lake must hold, and the request."""

    mark: str
    payload: object
    path: str
    headers: dict[str, str]
    body: bytes

    def wire(self) -> bytes:
        lines = [f"POST {self.path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


class Connection:
    """One keep-alive connection that is made again after every trouble."""

    def __init__(self) -> None:
        self._port = 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, port: int, wire: bytes) -> int:
        """The status of the answer. Raises OSError, EOFError or TimeoutError when there is none."""
        async with asyncio.timeout(ANSWER_S_MAX):
            if self._writer is None or port != self._port or self._writer.is_closing():
                self.close()
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
                self._port = port
            assert self._reader is not None
            self._writer.write(wire)
            await self._writer.drain()
            head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            await self._reader.readexactly(_content_length(head))
        if b"\r\nconnection: close\r\n" in head:
            self.close()
        return int(head[9:12])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0


@dataclass(slots=True)
class Driver:
    """Sends events that ``make`` builds, ``clients`` at a time, until ``stop`` is set.

    After a failure one half of the events is sent again until it is acknowledged, the other half is given
    up: those may be in the lake once or never. Of the acknowledged ones every tenth is sent a second time.
    """

    make: Callable[[int], Post]
    ports: Callable[[], Sequence[int]]
    ledger: Ledger
    clients: int
    seed: int
    pause_s: float = 0.0
    """Between two events of one client: a machine that starts a process needs its cores."""
    in_flight: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    """Answers by status; 0 counts requests without an answer."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    _next: int = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self.clients):
                group.create_task(self._client(random.Random(f"{self.seed} {number}")))

    async def _client(self, chance: random.Random) -> None:
        connection = Connection()
        try:
            while not self.stop.is_set():
                number, self._next = self._next, self._next + 1
                post = self.make(number)
                self.ledger.send(post.mark, post.payload)
                await self._deliver(post, connection, chance)
                if chance.random() < RECONNECT_SHARE:
                    connection.close()
                if self.pause_s:
                    await asyncio.sleep(self.pause_s)
        finally:
            connection.close()

    async def _deliver(self, post: Post, connection: Connection, chance: random.Random) -> None:
        patient = chance.random() < 0.5
        wire = post.wire()
        while not await self._attempt(wire, connection, chance):
            await asyncio.sleep(RECONNECT_S)
            if not patient or self.stop.is_set():
                return
        self.ledger.acknowledge(post.mark)
        if chance.random() < 0.1:
            await self._attempt(wire, connection, chance)

    async def _attempt(self, wire: bytes, connection: Connection, chance: random.Random) -> bool:
        self.in_flight += 1
        try:
            status = await connection.post(chance.choice(self.ports()), wire)
        except (OSError, EOFError, TimeoutError):
            connection.close()
            status = 0
        finally:
            self.in_flight -= 1
        self.statuses[status] += 1
        return 200 <= status < 300


async def until(what: str, condition: Callable[[], bool], *, seconds_max: float) -> None:
    """Waits for a condition; raises TimeoutError that names it."""
    deadline = time.monotonic() + seconds_max
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds_max} s: {what}")
        await asyncio.sleep(0.01)


async def accepts(port: int) -> bool:
    """True when something listens on the port."""
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True
    return False
