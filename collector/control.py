"""The control socket: a unix socket (0600) in the data folder; one JSON line in, JSON lines out.

Answers are any number of ``{"progress": …}``, then one ``{"done": …}`` or ``{"error": "…"}``. However long a
request takes, ``{"alive": true}`` comes every few seconds, so that silence means a daemon that hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

import structlog

from collector.verbs import Document, OnProgress, VerbError, Verbs
from outbox.store import StoreError

REQUEST_BYTES_MAX: Final = 256 * 1024 * 1024
"""A record that is brought here may be as large as one that was carried away."""
ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
CONVERSATIONS_MAX: Final = 16
SOCKET_PATH_BYTES_MAX: Final = 107
"""What the operating system allows."""
CONNECT_S_MAX: Final = 5.0
ALIVE_S: Final = 4.0
SILENCE_S_MAX: Final = 20.0
"""Of the daemon, before its first line and between two; also for taking a request. Several ``ALIVE_S``."""

T = TypeVar("T")
_log = structlog.get_logger("collector.control")


class NotRunning(Exception):
    """No daemon listens at the socket."""


class NotAnswering(Exception):
    """A daemon has the socket, but it hangs or its process is stopped."""


@contextlib.asynccontextmanager
async def serving(path: Path, verbs: Verbs) -> AsyncIterator[None]:
    """Listens while the block runs. Raises OSError when the socket cannot be made."""
    seats = asyncio.Semaphore(CONVERSATIONS_MAX)
    conversations: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio runs this as a task"
        conversations.add(task)
        pulse = asyncio.create_task(_say_alive(writer))
        try:
            async with seats:
                await _converse(reader, writer, verbs)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            pulse.cancel()
            conversations.discard(task)
            writer.close()

    _remove(path)
    with _reachable(path) as address:
        server = await asyncio.start_unix_server(converse, address, limit=REQUEST_BYTES_MAX)
    await asyncio.to_thread(path.chmod, 0o600)
    try:
        yield
    finally:
        server.close()
        for task in list(conversations):
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)
        _remove(path)


async def ask(path: Path, request: Mapping[str, object], on_progress: OnProgress) -> Document:
    """One request to the daemon at ``path``.

    Raises NotRunning, NotAnswering, VerbError, ConnectionError (it died).
    """
    try:
        with _reachable(path) as address:
            connecting = asyncio.open_unix_connection(address, limit=ANSWER_BYTES_MAX)
            reader, writer = await _soon(connecting, CONNECT_S_MAX)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise NotRunning(str(path)) from error
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        await _soon(writer.drain(), SILENCE_S_MAX)
        while line := await _soon(reader.readline(), SILENCE_S_MAX):
            answer: Document = json.loads(line)
            if "alive" in answer:
                continue
            if "error" in answer:
                raise VerbError(str(answer["error"]))
            if "done" in answer:
                return _document(answer["done"])
            await on_progress(_document(answer["progress"]))
        raise ConnectionError("the collector ended before it answered")
    finally:
        writer.close()


async def _soon(awaited: Awaitable[T], seconds_max: float) -> T:
    try:
        return await asyncio.wait_for(awaited, seconds_max)
    except TimeoutError as error:
        raise NotAnswering(f"nothing within {seconds_max:.0f} s") from error


async def _say_alive(writer: asyncio.StreamWriter) -> None:
    """Until it is cancelled or nobody listens."""
    with contextlib.suppress(ConnectionError):
        while True:
            await asyncio.sleep(ALIVE_S)
            writer.write(b'{"alive": true}\n')
            await writer.drain()


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, verbs: Verbs) -> None:
    async def tell(name: str, value: object) -> None:
        writer.write(json.dumps({name: value}).encode() + b"\n")
        await writer.drain()

    async def progress(document: Document) -> None:
        await tell("progress", document)

    try:
        request = _document(json.loads(await reader.readline()))
        await tell("done", await verbs.run(request, progress))
    except VerbError as error:
        await tell("error", str(error))
    except (ValueError, TypeError):
        await tell("error", "one JSON object on one line")
    except StoreError as error:
        _log.warning("control.failed", error=type(error).__name__)
        await tell("error", f"the outbox cannot do it now: {error}")


def _document(value: object) -> Document:
    if not isinstance(value, dict):
        raise TypeError("no JSON object")
    return value


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


@contextlib.contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """An address short enough for the operating system, also for a socket in a deep folder (Linux)."""
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
