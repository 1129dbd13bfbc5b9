"""Sends complete answers and writes problem documents (RFC 9457)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from asgi.types import Send

JSON: Final = b"application/json"
NDJSON: Final = b"application/x-ndjson"
PROBLEM_JSON: Final = b"application/problem+json"

_encode: Final = msgspec.json.Encoder().encode


async def send_answer(
    send: Send,
    status: int,
    body: bytes,
    content_type: bytes = JSON,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    """Send one complete answer, with its length, so that the connection can be kept."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", content_type),
                (b"content-length", str(len(body)).encode()),
                *headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})


def problem(status: int, type_urn: str, title: str, detail: str | None = None) -> bytes:
    """A problem document; ``detail`` is left out when None."""
    document: dict[str, object] = {"type": type_urn, "title": title, "status": status}
    if detail is not None:
        document["detail"] = detail
    return _encode(document)
