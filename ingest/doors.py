"""The hot paths, plain ASGI: one signed event a request, or many as lines; 2xx only after COMMIT."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final

import msgspec
import structlog
from opentelemetry.trace import Span, SpanKind, Tracer

from asgi.answers import NDJSON, PROBLEM_JSON, send_answer
from asgi.body import BodyBudget, BodyError, ClientGone, read_body
from asgi.tracing import parent_in, span, tracer_of
from asgi.types import Message, Receive, Scope, Send
from contracts.envelope import Receipt
from ingest.admission import Rates, Sender, admit, inflate, sender_name
from ingest.config import IngestConfig
from ingest.metrics import IngestMetrics
from ingest.problems import (
    BROKEN,
    RATE_LIMITED,
    REFUSED,
    TOO_LARGE,
    UNAVAILABLE,
    WRONG_METHOD,
    ProblemError,
    of_body_error,
)
from ingest.reading import read_event
from ingest.row import Committed, Fate, Refusal, Row, UnavailableError
from ingest.writer import Writer

log: Final = structlog.get_logger("ingest")

ON_LOOP_BYTES_MAX: Final = 256 * 1024
"""A larger body is verified and read in a thread, so that it stops nobody else."""

_STORED_TAIL: Final = b'"}'
_STORED: Final = b'{"status":"stored","event_id":"'
_DUPLICATE: Final = b'{"status":"duplicate","event_id":"'


def _start(status: int, head: bytes) -> Message:
    length = len(head) + 36 + len(_STORED_TAIL)
    return {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(length).encode())],
    }


_STORED_START: Final = _start(201, _STORED)
_DUPLICATE_START: Final = _start(200, _DUPLICATE)
_LINE_ID: Final = re.compile(rb'"event_id"\s*:\s*"([0-9a-fA-F-]{36})"')
_encode_lines: Final = msgspec.json.Encoder().encode_lines


class Doors:
    """The two hot endpoints over one writer."""

    def __init__(self, config: IngestConfig, writer: Writer, metrics: IngestMetrics) -> None:
        self._config = config
        self._metrics = metrics
        self._writer = writer
        self._tracer = tracer_of("zaplake.ingest")
        self._write = writer.write if self._tracer is None else self._traced_write
        self.budget = BodyBudget(config.bodies_bytes_max)
        self._rates = (
            None
            if config.rate_events_per_s is None
            else Rates(
                events_per_s=config.rate_events_per_s,
                burst=config.rate_burst,
                senders_max=config.rate_senders_max,
            )
        )

    async def event(self, scope: Scope, receive: Receive, send: Send) -> None:
        """POST /api/webhooks/whatsapp (contract §1)."""
        await self._serve(scope, receive, send, batch=False)

    async def batch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """POST /api/webhooks/whatsapp/batch (contract §2)."""
        await self._serve(scope, receive, send, batch=True)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, *, batch: bool) -> None:
        config, budget = self._config, self.budget
        size = 0
        try:
            self._turn_away(scope)
            body = await read_body(scope, receive, body_bytes_max=config.body_bytes_max, budget=budget)
            size = len(body)
            sender = Sender(scope["headers"])
            if size > ON_LOOP_BYTES_MAX:
                event_id = await asyncio.to_thread(admit, sender, config.secrets, body)
            else:
                event_id = admit(sender, config.secrets, body)
            if sender.encoding is not None:
                body = await inflate(body, sender.encoding, bytes_max=config.body_bytes_max, budget=budget)
                size = len(body)
            take = self._take_batch if batch else self._take_event
            if self._tracer is None:
                await take(scope, send, sender, event_id, body)
            else:
                with self._span_of(self._tracer, scope, size):
                    await take(scope, send, sender, event_id, body)
        except ClientGone:
            return
        except BodyError as error:
            refused = of_body_error(
                error, body_bytes_max=config.body_bytes_max, retry_after_s=config.retry_after_s
            )
            await self._send_problem(send, refused)
        except ProblemError as error:
            await self._send_problem(send, error)
        except UnavailableError:
            await self._send_problem(send, ProblemError(UNAVAILABLE, retry_after_s=config.retry_after_s))
        except Exception:
            log.exception("request.broken")
            await self._send_problem(send, ProblemError(BROKEN))
        finally:
            budget.give(size)

    def _span_of(self, tracer: Tracer, scope: Scope, size: int) -> AbstractContextManager[Span | None]:
        """From the right signature to the answer, under the sender's own span."""
        parent, told = parent_in(scope["headers"]), {"url.path": scope["path"], "body.bytes": size}
        return span(tracer, "ingest.receive", SpanKind.SERVER, parent=parent, attributes=told)

    async def _traced_write(self, rows: Sequence[Row], size: int) -> list[Fate]:
        """From the queue to the end of COMMIT."""
        with span(self._tracer, "ingest.commit", attributes={"rows": len(rows)}):
            return await self._writer.write(rows, size)

    def _turn_away(self, scope: Scope) -> None:
        """What is refused before its body is read."""
        if scope["method"] != "POST":
            raise ProblemError(WRONG_METHOD)
        if not self._writer.open:
            raise UnavailableError("stopping")

    async def _take_event(self, scope: Scope, send: Send, sender: Sender, event_id: str, body: bytes) -> None:
        self._limit(scope, sender, 1)
        if len(body) > ON_LOOP_BYTES_MAX:
            row = await asyncio.to_thread(read_event, body, event_id=event_id, collector=sender.collector)
        else:
            row = read_event(body, event_id=event_id, collector=sender.collector)
        (fate,) = await self._write((row,), len(body))
        if fate is Committed.STORED:
            await send(_STORED_START)
            head = _STORED
        elif fate is Committed.DUPLICATE:
            await send(_DUPLICATE_START)
            head = _DUPLICATE
        else:
            raise ProblemError(REFUSED, fate.detail)
        await send({"type": "http.response.body", "body": head + event_id.encode() + _STORED_TAIL})

    async def _take_batch(
        self, scope: Scope, send: Send, sender: Sender, _event_id: str, body: bytes
    ) -> None:
        lines = [line for line in body.split(b"\n") if line and not line.isspace()]
        if len(lines) > self._config.batch_lines_max:
            raise ProblemError(TOO_LARGE, f"The limit is {self._config.batch_lines_max} lines.")
        self._limit(scope, sender, len(lines))
        if len(body) > ON_LOOP_BYTES_MAX:
            read = await asyncio.to_thread(_read_lines, lines, sender.collector)
        else:
            read = _read_lines(lines, sender.collector)
        rows = [outcome for outcome in read if isinstance(outcome, Row)]
        self._metrics.rejected(len(read) - len(rows))
        fates = iter(await self._write(rows, len(body)) if rows else ())
        receipts = [
            _receipt(outcome.event_id, next(fates)) if isinstance(outcome, Row) else outcome
            for outcome in read
        ]
        await send_answer(send, 200, _encode_lines(receipts), NDJSON)

    async def _send_problem(self, send: Send, error: ProblemError) -> None:
        self._metrics.problem(error.kind)
        await send_answer(send, error.kind.status, error.document(), PROBLEM_JSON, error.headers())

    def limit(self, sender: str, events: int) -> None:
        """Count a sender's events. Raises ProblemError (429) above the configured rate."""
        if self._rates is not None:
            wait_s = self._rates.wait_s(sender, events, time.monotonic())
            if wait_s > 0:
                raise ProblemError(RATE_LIMITED, retry_after_s=math.ceil(wait_s))

    def _limit(self, scope: Scope, sender: Sender, events: int) -> None:
        if self._rates is not None:
            self.limit(sender_name(sender, scope), events)


def _read_lines(lines: Sequence[bytes], collector: str | None) -> list[Row | Receipt]:
    read: list[Row | Receipt] = []
    for line in lines:
        try:
            read.append(read_event(line, event_id=None, collector=collector))
        except ProblemError as error:
            read.append(
                Receipt(
                    event_id=_line_id(line),
                    status="rejected",
                    code=error.kind.status,
                    detail=error.detail or error.kind.title,
                )
            )
    return read


def _line_id(line: bytes) -> str:
    """The id of a line that may be no JSON: without it the sender could not tell which one was rejected."""
    found = _LINE_ID.search(line)
    return found[1].decode().lower() if found is not None else ""


def _receipt(event_id: str, fate: Fate) -> Receipt:
    if isinstance(fate, Refusal):
        return Receipt(event_id=event_id, status="rejected", code=REFUSED.status, detail=fate.detail)
    return Receipt(event_id=event_id, status=fate.value)
