"""The one thread that touches the SQLite connection: it runs queued operations in shared transactions."""

from __future__ import annotations

import asyncio
import queue
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from outbox.sqlite_engine import SqliteEngine
from outbox.sqlite_file import translated
from outbox.store import StoreError, StoreUnavailable

T = TypeVar("T")

QUEUED_MAX: Final = 1_024
"""Operations waiting for the thread; further callers wait for their turn."""
OPERATIONS_PER_COMMIT_MAX: Final = 256
"""Operations that share one transaction, hence one fsync."""


class Operation(NamedTuple, Generic[T]):
    """``work`` runs in a shared transaction, or with none open when ``bare``. A tuple: one a put is made."""

    work: Callable[[SqliteEngine], T]
    future: asyncio.Future[T]
    bare: bool = False
    counted: bool = True
    """It took a place among the queued, to be given back."""


class _Outcome(NamedTuple):
    future: asyncio.Future[Any]
    result: object = None
    error: Exception | None = None


class WriterThread:
    """Group commit: what is queued while a commit is on its way shares the next one.

    A failure of the thread itself fails every later call with StoreError, which ends the process (law 8).
    An operation that fails is rolled back and leaves its neighbours alone. Results are handed to the
    event loop once a batch, after COMMIT has returned.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, operations_per_commit_max: int) -> None:
        self._loop = loop
        self._operations_per_commit_max = operations_per_commit_max
        self._queue: queue.SimpleQueue[Operation[Any] | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(QUEUED_MAX)
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._died = False
        self._ended = asyncio.Event()

    async def start(self, open_engine: Callable[[], SqliteEngine]) -> SqliteEngine:
        """Open the connection in the thread; raises what opening raises."""
        opened: asyncio.Future[SqliteEngine] = self._loop.create_future()
        self._thread = threading.Thread(
            target=self._run, args=(open_engine, opened), name="outbox-sqlite", daemon=True
        )
        self._thread.start()
        return await asyncio.shield(opened)

    async def submit(self, work: Callable[[SqliteEngine], T], *, bare: bool = False) -> asyncio.Future[T]:
        """Queue one operation, waiting while the queue is full; its future ends after COMMIT."""
        await self._room.acquire()
        if self._stopping:
            self._room.release()
            raise self._refusal()
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(Operation(work=work, future=future, bare=bare))
        return future

    def submit_now(self, work: Callable[[SqliteEngine], object], *, bare: bool = False) -> None:
        """Queue one operation whose outcome nobody waits for; after ``stop`` it is moot."""
        if not self._stopping:
            future: asyncio.Future[object] = self._loop.create_future()
            self._queue.put(Operation(work=work, future=future, bare=bare, counted=False))

    async def stop(self) -> None:
        """Run what is queued, close the connection, end the thread."""
        self.ask_to_stop()
        await self._ended.wait()
        if self._thread is not None:
            self._thread.join()  # it has nothing left to do but return

    def ask_to_stop(self) -> None:
        """As ``stop``, without waiting for it."""
        if not self._stopping:
            self._stopping = True
            self._queue.put(None)

    def _run(self, open_engine: Callable[[], SqliteEngine], opened: asyncio.Future[SqliteEngine]) -> None:
        try:
            with translated():
                engine = open_engine()
        except Exception as error:
            self._tell([_Outcome(opened, error=error)], room=0)
            self._call(self._end)
            return
        self._tell([_Outcome(opened, result=engine)], room=0)
        try:
            while self._step(engine):
                pass
        finally:
            engine.close()
            self._call(self._end)

    def _step(self, engine: SqliteEngine) -> bool:
        operation = self._queue.get()
        batch: list[Operation[Any]] = []
        while operation is not None:
            batch.append(operation)
            if operation.bare or len(batch) == self._operations_per_commit_max or self._queue.empty():
                break
            operation = self._queue.get()
        if batch:
            room = sum(operation.counted for operation in batch)
            try:
                self._tell(_run_batch(engine, batch), room=room)
            except BaseException:
                self._died = True
                died = [_Outcome(operation.future, error=self._refusal()) for operation in batch]
                self._tell(died, room=room)
                raise
        goes_on, operation = operation is not None, None
        batch.clear()  # an error's traceback leads here: in a circle, bodies would wait for the collector
        return goes_on

    def _tell(self, outcomes: Sequence[_Outcome], *, room: int) -> None:
        self._call(self._deliver, outcomes, room)

    def _call(self, callback: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the loop is closed: nobody waits for an answer any more
            return

    def _end(self) -> None:
        """On the loop, after the thread: whoever is still queued is told."""
        self._stopping = True
        while not self._queue.empty():
            operation = self._queue.get_nowait()
            if operation is not None:
                self._deliver([_Outcome(operation.future, error=self._refusal())], int(operation.counted))
        self._ended.set()

    def _refusal(self) -> StoreError:
        """A thread that died will not come back: that is no outage, and whoever hears it should end."""
        if self._died:
            return StoreError("the outbox thread died")
        return StoreUnavailable("the outbox is closed")

    def _deliver(self, outcomes: Sequence[_Outcome], room: int) -> None:
        for _ in range(room):
            self._room.release()
        for outcome in outcomes:
            if outcome.future.done():
                continue
            if outcome.error is None:
                outcome.future.set_result(outcome.result)
            else:
                traceback.clear_frames(outcome.error.__traceback__)
                outcome.future.set_exception(outcome.error)


def _run_batch(engine: SqliteEngine, batch: Sequence[Operation[Any]]) -> list[_Outcome]:
    if batch[-1].bare:
        *rest, last = batch
        return [*(_run_batch(engine, rest) if rest else ()), _run_bare(engine, last)]
    try:
        with translated():
            engine.begin()
    except Exception as error:
        return [_Outcome(operation.future, error=error) for operation in batch]
    try:
        with translated():
            results = [operation.work(engine) for operation in batch]
            engine.commit()
    except Exception as error:
        engine.rollback()
        if len(batch) == 1:
            return [_Outcome(batch[0].future, error=error)]
        return [outcome for operation in batch for outcome in _run_batch(engine, [operation])]
    return [
        _Outcome(operation.future, result=result) for operation, result in zip(batch, results, strict=True)
    ]


def _run_bare(engine: SqliteEngine, operation: Operation[Any]) -> _Outcome:
    try:
        with translated():
            engine.ready()
            return _Outcome(operation.future, result=operation.work(engine))
    except Exception as error:
        return _Outcome(operation.future, error=error)
