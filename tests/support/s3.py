"""A bucket as S3 speaks, in memory and on loopback: what the blob store asks of one, and its outages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from asgi.server import HttpServer
from asgi.types import Receive, Scope, Send


@dataclass
class Bucket:
    """Objects by path, and uploads that are under way."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    is_away: bool = False
    largest_body: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.largest_body = max(self.largest_body, len(body))
        query = parse_qs(scope["query_string"].decode(), keep_blank_values=True)
        status, answer, headers = (
            (503, b"", {}) if self.is_away else self._answer(scope["method"], scope["path"], query, body)
        )
        head = [(name.encode(), value.encode()) for name, value in headers.items()]
        size = (b"content-length", str(len(answer)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [*head, size]})
        await send({"type": "http.response.body", "body": answer})

    def _answer(
        self, method: str, path: str, query: dict[str, list[str]], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        etag = {"ETag": '"1"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        if method == "POST" and "uploads" in query:
            self.uploads[path] = {}
            return 200, _xml("InitiateMultipartUploadResult", "<UploadId>u</UploadId>"), {}
        if method == "PUT" and "partNumber" in query:
            self.uploads[path][int(query["partNumber"][0])] = body
            return 200, b"", etag
        if method == "POST" and "delete" in query:
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for key in keys:
                self.objects.pop(f"{path.rstrip('/')}/{key}", None)
            gone = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            return 200, _xml("DeleteResult", gone), {}
        if method == "POST":
            parts = self.uploads.pop(path)
            self.objects[path] = b"".join(parts[number] for number in sorted(parts))
            return 200, _xml("CompleteMultipartUploadResult", '<ETag>"1"</ETag>'), {}
        if method == "PUT":
            self.objects[path] = body
            return 200, b"", etag
        if method == "DELETE":
            return (204 if self.objects.pop(path, None) is not None else 404), b"", {}
        found = self.objects.get(path)
        return (404, b"", {}) if found is None else (200, found, etag)


def _xml(name: str, content: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?><{name}>{content}</{name}>'.encode()


@asynccontextmanager
async def bucket() -> AsyncIterator[Bucket]:
    """Serve a bucket on a free port."""
    served = Bucket()
    server = HttpServer(served)
    port = await server.start()
    served.url = f"http://127.0.0.1:{port}"
    try:
        yield served
    finally:
        await server.stop(1)
