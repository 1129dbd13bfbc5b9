"""``/api/gateways/{source}``: a gateway's own webhook, without a collector between; 2xx only after COMMIT.

Second best: a collector takes events while this backend is away, and folds what an unstamped source repeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec
import structlog

from asgi.answers import PROBLEM_JSON, send_answer
from asgi.body import BodyBudget, BodyError, ClientGone, read_body
from asgi.inflate import UnknownEncoding, inflated
from asgi.types import Receive, Scope, Send
from contracts.configured import Family
from contracts.route import segments
from contracts.translation import Arrival
from ingest.config import IngestConfig
from ingest.direct.gate import Admitted, Gate
from ingest.direct.taking import Taker
from ingest.metrics import IngestMetrics
from ingest.problems import (
    BROKEN,
    NOT_FOUND,
    UNAVAILABLE,
    UNKNOWN_ENCODING,
    WRONG_METHOD,
    WRONG_VERIFY_TOKEN,
    ProblemError,
    of_body_error,
    repeatable,
)
from ingest.row import UnavailableError
from ingest.writer import Writer

PATH: Final = "/api/gateways/"

_TEXT: Final = b"text/plain; charset=utf-8"
_NOSNIFF: Final = ((b"x-content-type-options", b"nosniff"),)
_PARTS_BEFORE_SOURCE: Final = 2

_encode: Final = msgspec.json.Encoder().encode
_log: Final = structlog.get_logger("ingest.direct")


class DirectDoor:
    """A plain ASGI application for all paths below ``PATH``."""

    def __init__(
        self,
        config: IngestConfig,
        *,
        gate: Gate,
        taker: Taker,
        writer: Writer,
        budget: BodyBudget,
        metrics: IngestMetrics,
        now: Callable[[], datetime],
    ) -> None:
        self._config, self._gate, self._taker, self._writer = config, gate, taker, writer
        self._budget, self._metrics, self._now = budget, metrics, now
        self._inflating = asyncio.Semaphore(config.direct_threads_max)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        source, *rest = segments(scope["raw_path"])[_PARTS_BEFORE_SOURCE:] or [b""]
        name = source.decode("utf-8", "replace")
        try:
            if scope["method"] == "POST":
                counts = await self._post(name, rest, scope, receive)
                await send_answer(send, 200, _receipt(counts))
            else:
                await self._handshake(name, scope, send)
        except ClientGone:
            return
        except BodyError as error:
            limit, retry_after_s = self._config.body_bytes_max, self._config.retry_after_s
            await self._tell(
                send, name, of_body_error(error, body_bytes_max=limit, retry_after_s=retry_after_s)
            )
        except ProblemError as error:
            await self._tell(send, name, error)
        except UnavailableError:
            unavailable = ProblemError(UNAVAILABLE, retry_after_s=self._config.retry_after_s)
            await self._tell(send, name, unavailable)
        except Exception:
            _log.exception("request.broken")
            await self._tell(send, name, ProblemError(BROKEN))

    async def _post(self, name: str, rest: list[bytes], scope: Scope, receive: Receive) -> Mapping[str, int]:
        """What became of the body's facts."""
        if not self._writer.open:
            raise UnavailableError("stopping")
        if not name:
            raise ProblemError(NOT_FOUND)
        admitted = await self._gate.admit(name, rest, scope)
        bytes_max = self._config.body_bytes_max
        body = await read_body(scope, receive, body_bytes_max=bytes_max, budget=self._budget)
        taken = len(body)
        try:
            headers = dict(scope["headers"])
            if admitted.to_verify is not None and not admitted.to_verify.body_allows(headers, body):
                raise self._gate.refused(name)
            encoding = headers.get(b"content-encoding")
            if encoding is not None:
                body = await self._inflated(encoding, body)
                self._budget.give(taken)
                taken = 0
                self._budget.take(len(body))
                taken = len(body)
            return await self._taker.take(self._arrival(admitted, body), admitted)
        finally:
            self._budget.give(taken)

    def _arrival(self, admitted: Admitted, body: bytes) -> Arrival:
        """The channel is this door's, whatever the body says."""
        return Arrival(
            raw=body,
            gateway=admitted.gateway,
            path_instance=admitted.path_instance,
            channel="direct",
            captured_at=self._now(),
        )

    async def _inflated(self, encoding: bytes, wire: bytes) -> bytes:
        async with self._inflating:
            try:
                return await asyncio.to_thread(inflated, encoding, wire, self._config.body_bytes_max)
            except UnknownEncoding:
                raise ProblemError(UNKNOWN_ENCODING, "Known are gzip and identity.") from None

    async def _handshake(self, name: str, scope: Scope, send: Send) -> None:
        """Cloud API asks once, with the verify token of the settings."""
        configured = self._gate.configured(name)
        is_asked = scope["method"] == "GET"
        if not is_asked or configured is None or configured.gateway.family != "cloudapi":
            raise ProblemError(WRONG_METHOD)
        challenge = configured.credentials.answer_to_handshake(scope["query_string"])
        if challenge is None:
            raise ProblemError(WRONG_VERIFY_TOKEN)
        await send_answer(send, 200, challenge, _TEXT, _NOSNIFF)

    async def _tell(self, send: Send, name: str, error: ProblemError) -> None:
        told = _for_family(error, self._gate.family_of(name), self._config.retry_after_s)
        self._metrics.problem(told.kind)
        await send_answer(send, told.kind.status, told.document(), PROBLEM_JSON, told.headers())


def _for_family(error: ProblemError, family: Family | None, retry_after_s: int) -> ProblemError:
    """Evolution gives an event up for good on most of 4xx: it is told 503 instead (ADR 0010)."""
    return repeatable(error, retry_after_s=retry_after_s) if family == "evolution" else error


def _receipt(counts: Mapping[str, int]) -> bytes:
    """Stored when anything is new, else duplicate, else counted: a body may hold nothing that makes a row."""
    stored, duplicate = counts.get("stored", 0), counts.get("duplicate", 0)
    status = "stored" if stored else "duplicate" if duplicate else "counted"
    others = {name: count for name, count in counts.items() if name not in {"stored", "duplicate"}}
    return _encode({"status": status, "stored": stored, "duplicate": duplicate, "counted": others})
