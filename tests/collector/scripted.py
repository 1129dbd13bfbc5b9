"""A stand-in for the backend: real HTTP, answers as told, checks signatures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from asgi.answers import send_answer
from asgi.body import BodyBudget, ClientGone, read_body
from asgi.server import HttpServer
from asgi.types import Receive, Scope, Send
from contracts.blob_upload import PartRange, signed_text
from contracts.blobs import BLOB_PATH, blob_event_id
from contracts.signing import verify

SECRET: Final = b"scripted-signing-secret"
BODY_BYTES_MAX: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    method: str = "POST"

    @property
    def event_id(self) -> str:
        return self.headers["x-event-id"]

    @property
    def lines(self) -> list[bytes]:
        """The events of a batch."""
        return self.body.split(b"\n")


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    content_type: bytes = b"application/json"


Script = Callable[[Request], Reply | None]
"""An answer, or None for the honest one."""


@dataclass
class ScriptedBackend:
    """Stores in memory, by id; ``script`` may answer otherwise."""

    script: Script | None = None
    scopes: list[dict[str, str]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    stored: dict[str, bytes] = field(default_factory=dict)
    heartbeats: list[dict[str, Any]] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    """Complete ones by sha256."""
    parts: dict[str, bytes] = field(default_factory=dict)
    """Beginnings of blobs."""
    url: str = ""
    port: int = 0

    async def __aenter__(self) -> Self:
        self._server = HttpServer(self, port=self.port)
        self.url = f"http://127.0.0.1:{await self._server.start()}"
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._server.stop(0.5)

    def bodies(self) -> bytes:
        """Everything that was ever received, to search for what must not be there."""
        return b"\n".join(request.body for request in self.requests)

    def kinds(self) -> list[object]:
        return [json.loads(body).get("kind") for body in self.stored.values()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        budget = BodyBudget(8 * BODY_BYTES_MAX)
        try:
            body = await read_body(scope, receive, body_bytes_max=BODY_BYTES_MAX, budget=budget)
        except ClientGone:
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        request = Request(scope["path"], headers, body, scope["method"])
        self.requests.append(request)
        reply = self.script(request) if self.script is not None else None
        if reply is None:
            reply = self._honest(request)
        await send_answer(send, reply.status, reply.body, reply.content_type, reply.headers)

    def _honest(self, request: Request) -> Reply:
        if request.path.startswith(f"{BLOB_PATH}/"):
            return self._take_part(request)
        if not verify([SECRET], request.event_id, request.body, request.headers.get("x-signature", "")):
            return Reply(401, b"{}")
        if request.path.startswith("/api/collectors/"):
            self.heartbeats.append(json.loads(request.body))
            return Reply(200, json.dumps({"scopes": self.scopes}).encode())
        if request.path.endswith("/batch"):
            receipts = [self._store(line[13:49].decode(), line) for line in request.lines]
            return Reply(200, b"\n".join(json.dumps(receipt).encode() for receipt in receipts))
        receipt = self._store(request.event_id, request.body)
        return Reply(201 if receipt["status"] == "stored" else 200, json.dumps(receipt).encode())

    def _take_part(self, request: Request) -> Reply:
        sha256, place = request.path.rpartition("/")[2], request.headers["content-range"]
        hashed = hashlib.sha256(request.body).hexdigest()
        signed = signed_text(request.method, sha256, place, request.headers["content-type"], hashed)
        if not verify([SECRET], request.event_id, signed, request.headers.get("x-signature", "")):
            return Reply(401, b"{}")
        part = PartRange.parse(place)
        assert part is not None, place
        assert part.size == len(request.body)
        if sha256 in self.blobs:
            return self._blob_receipt(200, sha256, "duplicate")
        known = self.parts.setdefault(sha256, b"")
        if part.first <= len(known) < part.first + part.size:
            known = self.parts[sha256] = known[: part.first] + request.body
        if len(known) < part.total:
            return self._blob_receipt(202, sha256, "partial", offset=len(known))
        if hashlib.sha256(self.parts.pop(sha256)).hexdigest() != sha256:
            return Reply(422, b'{"type":"urn:zaplake:problem:wrong-hash"}')
        self.blobs[sha256] = known
        return self._blob_receipt(201, sha256, "stored")

    @staticmethod
    def _blob_receipt(status: int, sha256: str, word: str, **more: int) -> Reply:
        receipt = {"status": word, "event_id": blob_event_id(sha256), "sha256": sha256, **more}
        return Reply(status, json.dumps(receipt).encode())

    def _store(self, event_id: str, body: bytes) -> dict[str, str]:
        status = "duplicate" if event_id in self.stored else "stored"
        self.stored.setdefault(event_id, body)
        return {"event_id": event_id, "status": status}
