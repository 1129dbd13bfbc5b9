"""A real ingest service on a real socket, and the requests that tests send to it."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx

from asgi.server import HttpServer
from contracts.envelope import BATCH_PATH, EVENT_PATH
from contracts.heartbeat import Depth, Heartbeat, encode_heartbeat, heartbeat_path
from contracts.identity import heartbeat_id
from contracts.signing import sign
from ingest.config import IngestConfig
from ingest.desk import OnAlert, nobody
from ingest.direct.config import DirectConfig
from ingest.row import CommitBatch
from ingest.service import Service, open_service, same_commit

SECRET = b"a-secret-of-the-tests"
PAYLOAD: dict[str, object] = {"key": {"id": "3EB0", "fromMe": False}, "message": {"conversation": "oi"}}


def an_id() -> str:
    """A new event id."""
    return str(uuid.uuid4())


def event(**members: object) -> bytes:
    """The body of an event; members replace or add to the three that must be there."""
    return json.dumps(
        {"type": "messages.upsert", "chat_jid": "5511900000001@s.whatsapp.net", "payload": PAYLOAD, **members}
    ).encode()


def beat(**members: Any) -> Heartbeat:
    """The first heartbeat of the collector edge-1; members replace its own."""
    usual: dict[str, Any] = {"name": "edge-1", "version": "1", "epoch": "e", "boot": "b1", "seq": 1}
    usual |= {"uptime_s": 1.0, "depth": Depth()}
    return Heartbeat(**usual | members)


def signed(event_id: str, body: bytes, **headers: str) -> dict[str, str]:
    """The two headers a sender must send, and more."""
    return {"X-Event-Id": event_id, "X-Signature": sign(SECRET, event_id, body), **headers}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A running service with a client for its door and a connection for its database."""

    port: int
    client: httpx.AsyncClient
    service: Service
    dsn: str

    async def post(self, event_id: str, body: bytes, **headers: str) -> httpx.Response:
        """Send one signed event."""
        return await self.client.post(EVENT_PATH, content=body, headers=signed(event_id, body, **headers))

    async def post_batch(self, *lines: bytes) -> httpx.Response:
        """Send lines as one signed batch."""
        body, event_id = b"\n".join(lines) + b"\n", an_id()
        return await self.client.post(BATCH_PATH, content=body, headers=signed(event_id, body))

    async def post_heartbeat(self, told: Heartbeat, name: str | None = None) -> httpx.Response:
        """Send a signed heartbeat, to the path of ``name`` unless its own."""
        body = encode_heartbeat(told)
        headers = signed(heartbeat_id(told.name, told.boot, told.seq), body)
        return await self.client.post(heartbeat_path(name or told.name), content=body, headers=headers)

    async def fetch(self, query: str, *arguments: object) -> list[dict[str, Any]]:
        """Rows of the database, each as a dict."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return [dict(row) for row in await connection.fetch(query, *arguments)]
        finally:
            await connection.close()

    async def events(self) -> list[dict[str, Any]]:
        """The whole log in its order, payload and envelope decoded."""
        rows = await self.fetch("SELECT * FROM lake.whatsapp_event_logs ORDER BY seq")
        for row in rows:
            row["event_id"] = str(row["event_id"])
            row["payload"] = json.loads(row["payload"])
        return rows

    async def last_event(self) -> dict[str, Any]:
        """The newest row of the log."""
        return (await self.events())[-1]

    async def count(self) -> int:
        """How many rows the log has."""
        (row,) = await self.fetch("SELECT count(*)::int AS count FROM lake.whatsapp_event_logs")
        return int(row["count"])


@asynccontextmanager
async def backend(
    dsn: str,
    *,
    database: str | None = None,
    around_commit: Callable[[CommitBatch], CommitBatch] = same_commit,
    on_alert: OnAlert = nobody,
    direct: DirectConfig | None = None,
    **settings: Any,
) -> AsyncIterator[Backend]:
    """Serve ``dsn`` on a free port; ``database`` is the service's own way to it, such as a proxy."""
    usual: dict[str, Any] = {
        "secrets": (SECRET,),
        "watch_every_s": 0,
        "drain_s_max": 3.0,
        "token_look_pause_s": 0.01,
    }
    config = IngestConfig(dsn=database or dsn, **usual | settings)
    opened = open_service(config, around_commit=around_commit, on_alert=on_alert, direct=direct)
    async with opened as service:
        server = HttpServer(service.app)
        port = await server.start()
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
                yield Backend(port=port, client=client, service=service, dsn=dsn)
        finally:
            await server.stop(3)
