"""One event loop for a whole process: signals set ``stop``; the real error of a task group comes out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import uvloop

from outbox.store import StoreBusy, StoreError
from zaplake.trouble import Trouble

OBJECTS_PER_LOOK: Final = 20_000
"""New objects between two looks of the collector of cycles, where spared; Python's own default is 700."""

Main = Callable[[asyncio.Event], Awaitable[None]]


def run_until_stopped(main: Main, *, spares_collector: bool = False) -> None:
    """Runs ``main(stop)``; SIGTERM and SIGINT set ``stop``, a second one ends the process at once.

    Raises Trouble for what an operator can repair, and the first leaf of an exception group for the rest.
    """

    async def governed() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def ask_to_stop() -> None:
            stop.set()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ask_to_stop)
        await main(stop)

    gc.freeze()  # what the imports made lives as long as the process: no need to look through it again
    if spares_collector:
        spare_collector()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(governed())
    except BaseExceptionGroup as group:
        leaf = next(_leaves(group))
        raise leaf from leaf.__cause__


def spare_collector() -> None:
    """Lets the collector of cycles look less often: for a process that reads batches of small rows.

    A batch makes tens of thousands of objects that no cycle holds; they go by their counts. Not where one
    object may be a large body: what a cycle holds stays as long as nobody looks.
    """
    gc.set_threshold(OBJECTS_PER_LOOK, 10, 10)


@contextlib.contextmanager
def naming_the_port(host: str, port: int, option: str) -> Iterator[None]:
    """Turns "address in use" and what stops an outbox from opening into Trouble; groups are looked into."""
    try:
        yield
    except (OSError, StoreError, ExceptionGroup) as error:
        leaf = next(_leaves(error)) if isinstance(error, ExceptionGroup) else error
        trouble = _trouble_of(leaf, host, port, option)
        if trouble is None:
            raise
        raise trouble from leaf


def _trouble_of(error: BaseException, host: str, port: int, option: str) -> Trouble | None:
    if isinstance(error, StoreBusy):
        return _busy(error)
    if isinstance(error, StoreError):
        return Trouble(
            f"the outbox cannot be opened: {error}",
            "free the disk, repair the data folder, or choose another with --data-dir",
        )
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return Trouble(
            f"port {port} of {host} is taken", f"end what has it (another zaplake?), or use {option} N"
        )
    if isinstance(error, OSError) and error.errno in {errno.EADDRNOTAVAIL, errno.EACCES}:
        return Trouble(
            f"cannot listen on {host}:{port}: {error.strerror}", f"use another address or {option} N"
        )
    return None


def _busy(error: StoreBusy) -> Trouble:
    return Trouble(
        f"{error}", "a collector already runs on this data folder; end it, or use another --data-dir"
    )


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Trouble first: it says what to do."""
    flat: list[BaseException] = []
    for error in group.exceptions:
        flat.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    yield from sorted(flat, key=lambda error: not isinstance(error, Trouble))
