"""A load client in a process of its own: keep-alive connections, one request in flight on each.

All bytes are made before the clock starts. ``python -m bench.loadclient`` prints one JSON line (``Load``).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final, cast

import msgspec
import uvloop

from bench import requests

_END_OF_HEAD: Final = b"\r\n\r\n"
_CONTENT_LENGTH: Final = b"content-length:"


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of the client saw. ``ok`` counts 2xx answers; times are milliseconds."""

    ok: int
    seconds: float
    statuses: dict[str, int]
    p50_ms: float
    p99_ms: float

    @property
    def per_s(self) -> float:
        return self.ok / self.seconds


class _Run:
    """What all connections of a run share."""

    def __init__(self, prepared: Iterator[bytes], seconds: float) -> None:
        self.prepared = prepared
        self.deadline = time.perf_counter() + seconds
        self.statuses: Counter[bytes] = Counter()
        self.latencies_s: list[float] = []

    def next_request(self) -> bytes | None:
        if time.perf_counter() >= self.deadline:
            return None
        return next(self.prepared, None)


class _Connection(asyncio.Protocol):
    def __init__(self, run: _Run, done: asyncio.Future[None]) -> None:
        self._run = run
        self._done = done
        self._received = b""
        self._sent_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def _send(self) -> None:
        assert self._transport is not None
        request = self._run.next_request()
        if request is None:
            self._finish(None)
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        end = received.find(_END_OF_HEAD)
        if end < 0 or len(received) < end + 4 + _content_length(received[:end]):
            self._received = received
            return
        self._received = b""
        self._run.latencies_s.append(time.perf_counter() - self._sent_at)
        self._run.statuses[received[9:12]] += 1
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(exc or ConnectionResetError("the server closed a connection during the run"))

    def _finish(self, error: Exception | None) -> None:
        if not self._done.done():
            if error is None:
                self._done.set_result(None)
            else:
                self._done.set_exception(error)
        if self._transport is not None:
            self._transport.close()


def _content_length(head: bytes) -> int:
    lowered = head.lower()
    at = lowered.find(_CONTENT_LENGTH)
    if at < 0:
        raise ValueError("an answer without content-length")
    start = at + len(_CONTENT_LENGTH)
    end = lowered.find(b"\r\n", start)
    return int(lowered[start:] if end < 0 else lowered[start:end])


async def drive(port: int, clients: int, seconds: float, prepared: list[bytes]) -> Load:
    """Send what was prepared over ``clients`` connections until it is used up or ``seconds`` have gone."""
    loop = asyncio.get_running_loop()
    run = _Run(iter(prepared), seconds)
    started = time.perf_counter()
    waiting: list[asyncio.Future[None]] = []
    for _ in range(clients):
        done: asyncio.Future[None] = loop.create_future()
        waiting.append(done)
        await loop.create_connection(partial(_Connection, run, done), "127.0.0.1", port)
    await asyncio.gather(*waiting)
    elapsed = time.perf_counter() - started
    ordered = sorted(run.latencies_s) or [0.0]
    return Load(
        ok=sum(count for status, count in run.statuses.items() if status.startswith(b"2")),
        seconds=elapsed,
        statuses={status.decode(): count for status, count in run.statuses.items()},
        p50_ms=ordered[len(ordered) // 2] * 1000,
        p99_ms=ordered[len(ordered) * 99 // 100] * 1000,
    )


def run_client(
    *, port: int, shape: str, clients: int, seconds: float, count: int, run: str, batch: int = 1
) -> Load:
    """Start the client as a process of its own and wait for what it saw."""
    command = [sys.executable, "-m", "bench.loadclient", "--port", str(port), "--shape", shape, "--run", run]
    command += ["--clients", str(clients), "--seconds", str(seconds), "--count", str(count)]
    command += ["--batch", str(batch)]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=seconds + 120)
    load = msgspec.json.decode(finished.stdout, type=Load)
    if load.ok != sum(load.statuses.values()):
        raise RuntimeError(f"{shape}: not every request was answered 2xx: {load.statuses}")
    return load


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.loadclient")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--shape", choices=sorted(requests.SHAPES), required=True)
    parser.add_argument("--run", required=True, help="makes this run's ids differ from every other run's")
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--count", type=int, required=True, help="requests to prepare")
    parser.add_argument("--batch", type=int, default=1)
    asked = parser.parse_args()
    numbered = itertools.count()
    make = requests.SHAPES[asked.shape]
    prepared = [make(asked.run, numbered, asked.batch) for _ in range(asked.count)]
    load = uvloop.run(drive(asked.port, asked.clients, asked.seconds, prepared))
    sys.stdout.write(msgspec.json.encode(load).decode() + "\n")


if __name__ == "__main__":
    main()
