"""The webhook door (contract §9): 2xx only after the durable commit, 503 for every trouble that may heal.

A gateway drops an event for good on 400, 401, 403, 404, 422 and on a redirect, so none of these is ever
said to one; 404 is left for paths that are no gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec
import structlog
from opentelemetry.trace import SpanKind

from asgi.answers import JSON, PROBLEM_JSON, problem, send_answer
from asgi.body import BodyError as BodyRefused
from asgi.body import (
    BodyTooLarge,
    BudgetExhausted,
    ClientGone,
    first_chunk,
    hand_over,
    is_whole,
    read_from,
)
from asgi.exposition import METRICS_PATH, METRICS_TYPE
from asgi.inflate import UnknownEncoding, inflated
from asgi.peer import asks_from_here, is_loopback
from asgi.tracing import span, tracer_of
from asgi.types import Receive, Received, Scope, Send
from collector.alerts import Alerts
from collector.capture import Capture
from collector.config import CollectorConfig
from collector.spool import Spooled
from collector.verbs import Document
from contracts.base64text import Cut
from contracts.configured import GatewayConfig
from contracts.credentials import Credentials
from contracts.envelope import PROBLEM_TOO_LARGE, PROBLEM_UNAVAILABLE
from contracts.route import PREFIX, Place, place_in, segments
from contracts.signing import BodyMacs
from contracts.translation import Arrival
from outbox.store import StoreError, StoreFull

_TEXT: Final = b"text/plain; charset=utf-8"
_NOSNIFF: Final = ((b"x-content-type-options", b"nosniff"),)
_HEALTHY: Final = b'{"status":"ok"}'
_STORED: Final = b'{"status":"stored"}'
_RETRY_AFTER: Final = ((b"retry-after", b"5"),)
_NOT_FOUND: Final = problem(404, "about:blank", "Not a gateway")
_NOT_ALLOWED: Final = problem(405, "about:blank", "Method not allowed")
_FORBIDDEN: Final = problem(403, "about:blank", "Forbidden")
_UNAVAILABLE: Final = problem(503, PROBLEM_UNAVAILABLE, "Not now")

_METRICS: Final = [METRICS_PATH.strip("/").encode()]

_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger("collector.door")


class _Refused(Exception):
    """The gateway gets 503; ``alert`` tells the operator why."""

    def __init__(self, alert: str, detail: str) -> None:
        super().__init__(alert)
        self.alert, self.detail = alert, detail


@dataclass(frozen=True, slots=True)
class _Gate:
    gateway: GatewayConfig
    credentials: Credentials
    by_events: bool


class Door:
    """The collector's ASGI application."""

    def __init__(
        self,
        *,
        capture: Capture,
        config: CollectorConfig,
        alerts: Alerts,
        status: Callable[[], Awaitable[Document]],
        metrics: Callable[[], Awaitable[bytes]],
        now: Callable[[], datetime],
    ) -> None:
        self._capture, self._alerts, self._now = capture, alerts, now
        self._tracer = tracer_of("zaplake.collector")
        self._status, self._metrics, self._metrics_open = status, metrics, config.metrics_open
        self._limits = limits = config.limits
        with_media = limits.body_with_media_bytes_max
        self._too_large = f"The limit is {limits.body_bytes_max} bytes, {with_media} with media."
        self._budget = capture.spool.memory
        self._inflating = asyncio.Semaphore(config.limits.heavy_threads_max)
        self._gates = {
            gateway.name.encode(): _Gate(gateway, Credentials(gateway), gateway.family == "evolution")
            for gateway in config.gateways
        }
        names = ", ".join(gateway.name for gateway in config.gateways)
        self._no_such_gateway = f"events are lost: a webhook URL names none of {names}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request. Nothing but cancellation leaves here as an exception."""
        if scope["type"] != "http":
            return
        parts = segments(scope["raw_path"])
        gate = self._gates.get(parts[1]) if len(parts) > 1 and parts[0] == PREFIX else None
        if gate is None:
            await self._beside(parts, scope, send)
            return
        place = place_in(parts[2:], is_token=gate.credentials.is_token, by_events=gate.by_events)
        method = scope["method"]
        if method == "POST":
            await self._post(gate, place, scope, receive, send)
        elif method == "GET" and gate.gateway.family == "cloudapi":
            await self._handshake(gate, scope, send)
        else:
            await self._answer(send, 405, _NOT_ALLOWED, PROBLEM_JSON, ((b"allow", b"POST"),))

    async def _answer(
        self,
        send: Send,
        status: int,
        body: bytes,
        content_type: bytes = JSON,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        self._capture.metrics.answered(status)
        await send_answer(send, status, body, content_type, headers)

    async def _beside(self, parts: list[bytes], scope: Scope, send: Send) -> None:
        """Paths that are no gateway."""
        if parts == [b"healthz"]:
            await self._answer(send, 200, _HEALTHY)
        elif parts == [b"status"] and asks_from_here(scope):
            await self._tell(send, self._told_status, JSON)
        elif parts == _METRICS and (self._metrics_open or asks_from_here(scope)):
            await self._tell(send, self._metrics, METRICS_TYPE.encode())
        else:
            self._capture.tally.add_total("no_gateway")
            if parts[:1] == [PREFIX] and scope["method"] == "POST":  # it drops the event for good on 404
                self._alerts.raise_("door.no_gateway", detail=self._no_such_gateway, fades=True)
            await self._answer(send, 404, _NOT_FOUND, PROBLEM_JSON)

    async def _told_status(self) -> bytes:
        return _encode(await self._status())

    async def _tell(self, send: Send, page: Callable[[], Awaitable[bytes]], content_type: bytes) -> None:
        try:
            body = await page()
        except StoreError as error:
            _log.warning("status.failed", error=type(error).__name__)
            await self._answer(send, 503, _UNAVAILABLE, PROBLEM_JSON, _RETRY_AFTER)
        else:
            await self._answer(send, 200, body, content_type)

    async def _handshake(self, gate: _Gate, scope: Scope, send: Send) -> None:
        challenge = gate.credentials.answer_to_handshake(scope["query_string"])
        if challenge is not None:
            await self._answer(send, 200, challenge, _TEXT, _NOSNIFF)
        else:
            is_set = gate.gateway.verify_token is not None
            detail = "wrong verify token" if is_set else "no verify_token is configured"
            self._alerts.raise_("door.handshake", gate.gateway.name, detail, fades=True)
            await self._answer(send, 403, _FORBIDDEN, PROBLEM_JSON)

    async def _post(self, gate: _Gate, place: Place, scope: Scope, receive: Receive, send: Send) -> None:
        name = gate.gateway.name
        try:
            if self._tracer is None:
                await self._accept(gate, place, scope, receive)
            else:
                with span(self._tracer, "door.receive", SpanKind.SERVER):
                    await self._accept(gate, place, scope, receive)
        except ClientGone:
            return
        except BodyTooLarge:
            detail = self._too_large
            self._alerts.raise_("door.too_large", name, detail, fades=True)
            self._capture.tally.add_total("too_large")
            body = problem(413, PROBLEM_TOO_LARGE, "Body too large", detail)
            await self._answer(send, 413, body, PROBLEM_JSON)
        except _Refused as refused:
            self._alerts.raise_(refused.alert, name, refused.detail, fades=True)
            self._capture.tally.add_total(refused.alert)
            await self._answer(send, 503, _UNAVAILABLE, PROBLEM_JSON, _RETRY_AFTER)
        except BodyRefused as refused:
            reason = "budget" if isinstance(refused, BudgetExhausted) else "stalled"
            self._capture.tally.add_total(f"door.{reason}")
            await self._answer(send, 503, _UNAVAILABLE, PROBLEM_JSON, _RETRY_AFTER)
        except Exception as error:
            _log.exception("door.failed", gateway=name, error=type(error).__name__)
            self._alerts.raise_("door.failed", name, type(error).__name__, fades=True)
            self._capture.tally.add_total("door.failed")
            await self._answer(send, 503, _UNAVAILABLE, PROBLEM_JSON, _RETRY_AFTER)
        else:
            await self._answer(send, 200, _STORED)

    async def _accept(self, gate: _Gate, place: Place, scope: Scope, receive: Receive) -> None:
        """Returns when the body's facts are durable or counted."""
        headers = dict(scope["headers"])
        opened = self._may_read(gate, place, scope, headers)
        first = await first_chunk(receive)
        spooled = None
        if not is_whole(first, self._limits.body_bytes_max) and b"content-encoding" not in headers:
            spooled = self._capture.spool.cutting(gate.gateway.family)
        try:
            if spooled is not None:
                macs = None if opened else gate.credentials.macs()
                await self._accept_in_steps(gate, place, scope, receive, first, spooled, macs)
                return
            wire = await read_from(
                scope, receive, first, body_bytes_max=self._limits.body_bytes_max, budget=self._budget
            )
            await self._accept_whole(gate, place, headers, opened, wire)
        except StoreFull as error:
            raise _Refused("outbox.full", str(error)) from error

    async def _accept_whole(
        self, gate: _Gate, place: Place, headers: Mapping[bytes, bytes], opened: bool, wire: bytes
    ) -> None:
        """A body in memory, whose bytes are taken from the budget already: they are given back."""
        taken = len(wire)
        try:
            if not opened and not gate.credentials.body_allows(headers, wire):
                raise _Refused("door.secret", "missing or wrong secret")
            encoding = headers.get(b"content-encoding")
            if encoding is not None:
                wire = await self._inflate(encoding, wire)
                self._budget.give(taken)
                taken = 0
                self._budget.take(len(wire))
                taken = len(wire)
            await self._capture.take(self._arrival(gate, place, wire))
        finally:
            self._budget.give(taken)

    async def _accept_in_steps(
        self,
        gate: _Gate,
        place: Place,
        scope: Scope,
        receive: Receive,
        first: Received,
        spooled: Spooled,
        macs: BodyMacs | None,
    ) -> None:
        """A body that may be large: what can be cut out of it never is in memory as a whole."""
        intake = self._capture.translator.intake(spooled, macs)
        try:
            await hand_over(
                scope, receive, first, intake, body_bytes_max=self._limits.body_with_media_bytes_max
            )
            raw = await intake.finish()
            if macs is not None and not gate.credentials.pieces_allow(dict(scope["headers"]), macs):
                raise _Refused("door.secret", "missing or wrong secret")
            await self._capture.take(self._arrival(gate, place, raw, spooled.cuts), spooled)
        finally:
            intake.drop()

    def _arrival(self, gate: _Gate, place: Place, raw: bytes, cuts: tuple[Cut, ...] = ()) -> Arrival:
        return Arrival(
            raw=raw,
            gateway=gate.gateway,
            path_instance=place.instance,
            channel="webhook",
            captured_at=self._now(),
            cuts=cuts,
        )

    def _may_read(self, gate: _Gate, place: Place, scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
        """True when the door is open already, False when the body must open it; _Refused when nothing can."""
        credentials = gate.credentials
        if not credentials.needed:
            if not is_loopback(scope.get("client")):
                raise _Refused("door.no_secret", "no secret configured: open to this machine only")
            opened = True
        else:
            opened = place.token_ok or credentials.headers_allow(headers, self._now().timestamp())
            if not opened and not credentials.reads_body:
                raise _Refused("door.secret", "missing or wrong secret")
        if not place.understood:
            raise _Refused("door.path", "the URL has more segments than gateway, secret, instance, event")
        return opened

    async def _inflate(self, encoding: bytes, wire: bytes) -> bytes:
        async with self._inflating:
            try:
                return await asyncio.to_thread(inflated, encoding, wire, self._limits.body_bytes_max)
            except UnknownEncoding as error:
                raise _Refused("door.encoding", "unknown Content-Encoding") from error
