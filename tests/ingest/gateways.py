"""A gateway that posts to the backend itself, with a token of the real command's making."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx

from contracts.configured import Family
from tests.ingest.backend import Backend
from zaplake.gateway_tokens import Made, create

CHAT = "5511900000001@s.whatsapp.net"


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """One gateway's way to the door."""

    backend: Backend
    made: Made

    @property
    def path(self) -> str:
        return f"/api/gateways/{self.made.gateway}"

    async def post(self, body: bytes, below: str = "", **headers: str) -> httpx.Response:
        """With the token as a header, unless headers say another."""
        return await self.backend.client.post(
            self.path + below, content=body, headers={"X-Gateway-Token": self.made.token, **headers}
        )


async def direct_to(
    backend: Backend, gateway: str, family: Family | None = None, instances: tuple[str, ...] = ()
) -> Direct:
    """A gateway with a new token; named like its family unless said."""
    known: Any = family or gateway
    return Direct(backend=backend, made=await create(backend.dsn, gateway, known, instances))


def evolution(event: str, data: object, **envelope: object) -> bytes:
    """A body of Evolution's webhook."""
    when = "2026-01-01T10:00:00.000Z"
    return json.dumps(
        {"event": event, "instance": "loja", "date_time": when, "data": data, **envelope}
    ).encode()


def text(number: int, words: str = "oi") -> dict[str, object]:
    """An element with content."""
    return {
        "key": {"id": f"3EB0{number:06X}", "remoteJid": CHAT, "fromMe": False},
        "message": {"conversation": words},
        "messageTimestamp": 1764950400 + number,
    }


def baileys(event: str, data: object, **stamp: object) -> bytes:
    """A body of a bot."""
    return json.dumps({"event": event, "data": data, **stamp}).encode()
