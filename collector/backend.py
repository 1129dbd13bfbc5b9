"""One signed request to the backend: bounded in time and answer, never redirected, every failure named."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import TracebackType
from typing import Final, Self

import httpx
import structlog
from opentelemetry.trace import SpanKind

from asgi.tracing import put_parent, span, tracer_of
from collector.config import CollectorConfig
from contracts.envelope import COLLECTOR_HEADER, EVENT_ID_HEADER, SIGNATURE_HEADER
from contracts.signing import sign
from outbox.verdict import TransportFailure

CONNECTIONS_SPARE: Final = 2
"""Beside the requests in flight: a heartbeat and a probe."""

UNANSWERED_MAX: Final = 3
"""Requests in a row whose time ran out, until they are sent by a new client: one that is cancelled at an
unlucky step keeps its place in httpcore's pool for ever, and nothing is sent when all places are kept."""
CLOSE_S_MAX: Final = 5.0
"""How long the close of a client may take."""

FAILURES: Final[dict[type[httpx.TransportError], TransportFailure]] = {
    httpx.TransportError: TransportFailure.OTHER,
    httpx.TimeoutException: TransportFailure.TIMEOUT,
    httpx.ConnectTimeout: TransportFailure.TIMEOUT,
    httpx.ReadTimeout: TransportFailure.TIMEOUT,
    httpx.WriteTimeout: TransportFailure.TIMEOUT,
    httpx.PoolTimeout: TransportFailure.POOL,
    httpx.NetworkError: TransportFailure.OTHER,
    httpx.ConnectError: TransportFailure.CONNECT,
    httpx.ReadError: TransportFailure.READ,
    httpx.WriteError: TransportFailure.WRITE,
    httpx.CloseError: TransportFailure.DISCONNECTED,
    httpx.ProxyError: TransportFailure.CONNECT,
    httpx.UnsupportedProtocol: TransportFailure.OTHER,
    httpx.ProtocolError: TransportFailure.PROTOCOL,
    httpx.LocalProtocolError: TransportFailure.PROTOCOL,
    httpx.RemoteProtocolError: TransportFailure.DISCONNECTED,
}
"""Every exception that httpx has for a request without an answer; a test holds it complete."""

_STALE: Final = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
"""What a request meets on a kept connection that the other side is just closing."""

_NO_TIME: Final = (TransportFailure.TIMEOUT, TransportFailure.POOL)

_log = structlog.get_logger("collector.backend")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete answer."""

    status: int
    content_type: str
    retry_after: str | None
    body: bytes
    date: str | None = None
    """The backend's clock when it answered."""


class Backend:
    """A client of one backend. Use as an async context manager."""

    def __init__(self, config: CollectorConfig) -> None:
        limits = config.limits
        self._secret = config.secrets[0]
        self._tracer = tracer_of("zaplake.collector")
        self._timeout_s = limits.request_timeout_s
        self._answer_bytes_max = limits.answer_bytes_max
        self._new_client = partial(_new_client, config, httpx.create_ssl_context(trust_env=False))
        self._client = self._new_client()
        self._unanswered = 0
        self._ended = asyncio.Event()
        self._retiring: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._ended.set()
        await asyncio.gather(*self._retiring)
        await _close(self._client)

    async def post(
        self, path: str, *, event_id: str, body: bytes, content_type: str
    ) -> Reply | TransportFailure:
        """Post ``body`` signed under ``event_id``. A connection found closed is tried once more, anew.

        Only for requests that may be repeated: all of the contract's are.
        """
        content = {"Content-Type": content_type}
        return await self.send("POST", path, event_id=event_id, signed=body, body=body, headers=content)

    async def send(
        self,
        method: str,
        path: str,
        *,
        event_id: str,
        signed: bytes,
        body: bytes,
        headers: Mapping[str, str],
    ) -> Reply | TransportFailure:
        """The same for any method; the signature is over ``signed``."""
        ours = {EVENT_ID_HEADER: event_id, SIGNATURE_HEADER: sign(self._secret, event_id, signed)}
        complete = {**headers, **ours}
        if self._tracer is None:
            return await self._answer(method, path, complete, body)
        told: dict[str, str | int] = {
            "http.request.method": method,
            "url.path": path,
            "body.bytes": len(body),
        }
        with span(self._tracer, "ship.request", SpanKind.CLIENT, attributes=told) as current:
            put_parent(complete)
            reply = await self._answer(method, path, complete, body)
            if current is not None and isinstance(reply, Reply):
                current.set_attribute("http.response.status_code", reply.status)
            elif current is not None:
                current.set_attribute("error.type", str(reply))
            return reply

    async def _answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> Reply | TransportFailure:
        client = self._client
        reply = await self._try(client, method, path, headers, body)
        if client is self._client:
            self._unanswered = self._unanswered + 1 if reply in _NO_TIME else 0
            if self._unanswered == UNANSWERED_MAX:
                self._renew()
        return reply

    def _renew(self) -> None:
        """Makes a new client; requests on the old one keep the time that they have."""
        _log.info("backend.client_renewed", unanswered=self._unanswered)
        retiring = asyncio.create_task(self._retire(self._client))
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)
        self._client, self._unanswered = self._new_client(), 0

    async def _retire(self, client: httpx.AsyncClient) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_s):
                await self._ended.wait()
        await _close(client)

    async def _try(
        self, client: httpx.AsyncClient, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> Reply | TransportFailure:
        try:
            async with asyncio.timeout(self._timeout_s):
                try:
                    return await self._once(client, method, path, headers, body)
                except _STALE:
                    return await self._once(client, method, path, headers, body)
        except TimeoutError:
            return TransportFailure.TIMEOUT
        except httpx.TransportError as error:
            return failure_of(error)
        except (httpx.RequestError, OSError):
            return TransportFailure.OTHER
        except Exception as error:
            # Whatever the other side does is an outage and never our end. A connection that is reset while it
            # is made is an AttributeError of anyio, which asks a socket that is gone.
            _log.warning("backend.odd_answer", error=type(error).__name__)
            return TransportFailure.OTHER

    async def _once(
        self, client: httpx.AsyncClient, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> Reply | TransportFailure:
        async with client.stream(method, path, headers=headers, content=body) as response:
            chunks: list[bytes] = []
            size = 0
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                if size > self._answer_bytes_max:
                    return TransportFailure.ANSWER_TOO_LARGE
                chunks.append(chunk)
            return Reply(
                status=response.status_code,
                content_type=response.headers.get("content-type", ""),
                retry_after=response.headers.get("retry-after"),
                body=b"".join(chunks),
                date=response.headers.get("date"),
            )


def _new_client(config: CollectorConfig, tls: ssl.SSLContext) -> httpx.AsyncClient:
    limits = config.limits
    return httpx.AsyncClient(
        base_url=config.backend_url.rstrip("/"),
        headers={"User-Agent": "zaplake-collector", COLLECTOR_HEADER: config.name},
        timeout=httpx.Timeout(limits.request_timeout_s),
        limits=httpx.Limits(
            max_connections=limits.batches_in_flight_max
            + limits.solos_in_flight_max
            + limits.blobs_in_flight_max
            + CONNECTIONS_SPARE,
            keepalive_expiry=limits.client_keep_alive_s,
        ),
        cookies=no_cookies(),
        verify=tls,
        follow_redirects=False,
        trust_env=False,
    )


async def _close(client: httpx.AsyncClient) -> None:
    try:
        async with asyncio.timeout(CLOSE_S_MAX):
            await client.aclose()
    except Exception as error:
        # Nobody waits for an answer on it; the libraries raise whatever they like for a socket that is gone.
        _log.info("backend.close_failed", error=type(error).__name__)


def no_cookies() -> CookieJar:
    """A jar that keeps nothing: each request says who it is, and a cookie may be one that cannot be sent."""
    return CookieJar(DefaultCookiePolicy(netscape=False, rfc2965=False))


def failure_of(error: httpx.TransportError) -> TransportFailure:
    """Why there was no answer; a connect error is told apart by what caused it."""
    if isinstance(error, httpx.ConnectError):
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLError):
                return TransportFailure.TLS
            if isinstance(cause, socket.gaierror):
                return TransportFailure.RESOLVE
            cause = cause.__cause__ or cause.__context__
    for kind in type(error).__mro__:
        if kind in FAILURES:
            return FAILURES[kind]
    return TransportFailure.OTHER
