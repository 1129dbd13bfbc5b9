"""The HTTP face of ingest: hot paths as plain ASGI routes, everything else as ordinary Litestar handlers."""

from __future__ import annotations

from typing import Any, Protocol

from litestar import Litestar, Request, Response, get, post
from litestar.exceptions import HTTPException
from litestar.handlers import asgi
from litestar.params import FromPath
from litestar.types import ExceptionHandlersMap

from asgi.answers import JSON, PROBLEM_JSON
from asgi.body import BodyError, ClientGone, read_body
from asgi.exposition import METRICS_PATH, METRICS_TYPE
from asgi.peer import asks_from_here
from contracts.envelope import BATCH_PATH, EVENT_PATH
from contracts.heartbeat import Heartbeat, HeartbeatAnswer, encode_answer, heartbeat_path
from ingest.admission import Sender, admit
from ingest.config import IngestConfig
from ingest.doors import Doors, log
from ingest.heartbeat import HEARTBEAT_BYTES_MAX, read_heartbeat
from ingest.metrics import COLLECTORS_LABELLED_MAX, IngestMetrics
from ingest.problems import (
    BROKEN,
    BY_STATUS,
    NOT_FOUND,
    STALLED,
    UNAVAILABLE,
    Kind,
    ProblemError,
    of_body_error,
)
from ingest.row import UnavailableError


class Desk(Protocol):
    """What the ordinary handlers need of the service."""

    async def keep_heartbeat(self, beat: Heartbeat, report: bytes) -> HeartbeatAnswer:
        """Store a heartbeat; returns the scope table. Raises UnavailableError."""

    async def ready(self) -> bool:
        """Whether events can be committed now."""

    async def heartbeat_ages(self, limit: int) -> list[tuple[str, float]]:
        """(collector, seconds since its last heartbeat). Raises UnavailableError."""


def create_app(config: IngestConfig, *, doors: Doors, desk: Desk, metrics: IngestMetrics) -> Litestar:
    """The application over resources that ``ingest.service.open_service`` has opened."""

    @post(heartbeat_path("{name:str}"), status_code=200)
    async def heartbeat(name: FromPath[str], request: Request[Any, Any, Any]) -> Response[bytes]:
        body = await read_body(
            request.scope,
            request.receive,
            body_bytes_max=HEARTBEAT_BYTES_MAX,
            budget=doors.budget,
        )
        try:
            admit(Sender(request.scope["headers"]), config.secrets, body)
            beat, report = read_heartbeat(name, body)
            return _answer(200, encode_answer(await desk.keep_heartbeat(beat, report)))
        finally:
            doors.budget.give(len(body))

    @get("/healthz")
    async def healthz() -> Response[bytes]:
        return _answer(200, b'{"status":"ok"}')

    @get("/readyz")
    async def readyz() -> Response[bytes]:
        if not await desk.ready():
            raise UnavailableError("not ready")
        return _answer(200, b'{"status":"ready"}')

    @get(METRICS_PATH)
    async def told_metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
        if not config.metrics_open and not asks_from_here(request.scope):
            raise ProblemError(NOT_FOUND)
        try:
            ages = await desk.heartbeat_ages(COLLECTORS_LABELLED_MAX)
        except UnavailableError:
            ages = []  # the other figures matter most when the database is away
        page, kind = metrics.page(ages), METRICS_TYPE.partition("; charset")[0]  # it adds its own charset
        return _answer(200, page, kind.encode())

    return Litestar(
        route_handlers=[
            asgi(EVENT_PATH, copy_scope=False)(doors.event),
            asgi(BATCH_PATH, copy_scope=False)(doors.batch),
            heartbeat,
            healthz,
            readyz,
            told_metrics,
        ],
        exception_handlers=_answers_to_errors(config, metrics),
        openapi_config=None,
        logging_config=None,
    )


def _answers_to_errors(config: IngestConfig, metrics: IngestMetrics) -> ExceptionHandlersMap:
    def tell(error: ProblemError, more: dict[str, str] | None = None) -> Response[bytes]:
        metrics.problem(error.kind)
        headers = {name.decode(): value.decode() for name, value in error.headers()} | (more or {})
        return _answer(error.kind.status, error.document(), PROBLEM_JSON, headers)

    def on_problem(_request: Request[Any, Any, Any], error: ProblemError) -> Response[bytes]:
        return tell(error)

    def on_body_error(_request: Request[Any, Any, Any], error: BodyError) -> Response[bytes]:
        if isinstance(error, ClientGone):
            return tell(ProblemError(STALLED))  # nobody reads it
        return tell(
            of_body_error(error, body_bytes_max=HEARTBEAT_BYTES_MAX, retry_after_s=config.retry_after_s)
        )

    def on_unavailable(_request: Request[Any, Any, Any], _error: UnavailableError) -> Response[bytes]:
        return tell(ProblemError(UNAVAILABLE, retry_after_s=config.retry_after_s))

    def on_framework_error(_request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
        kind = BY_STATUS.get(error.status_code)
        if kind is None:
            kind = Kind(
                status=error.status_code, urn="urn:zaplake:problem:refused", title="The request is refused"
            )
        return tell(ProblemError(kind), dict(error.headers or {}))

    def on_broken(_request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        log.error("request.broken", exc_info=error)
        return tell(ProblemError(BROKEN))

    return {
        ProblemError: on_problem,
        UnavailableError: on_unavailable,
        BodyError: on_body_error,
        HTTPException: on_framework_error,
        Exception: on_broken,
    }


def _answer(
    status: int, body: bytes, content_type: bytes = JSON, headers: dict[str, str] | None = None
) -> Response[bytes]:
    return Response(body, status_code=status, media_type=content_type.decode(), headers=headers or {})
