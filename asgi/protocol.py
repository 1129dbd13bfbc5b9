"""HTTP/1.1 of uvicorn with limits for a request's head: its size, and the time until its body begins."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX: Final = 64 * 1024
HEAD_S_MAX: Final = 20.0
"""From the connection, or the first byte of a later request, to the first byte of its body (or its end)."""
JOINED_BYTES_MAX: Final = 16 * 1024

_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


class JoinedWrites:
    """A transport that makes one packet of the head and the body of an answer: uvicorn writes them apart.

    A head waits for its body, until the end of the loop's turn at most; what is large waits for nothing.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._pieces: list[bytes] = []
        self._bytes = 0

    def write(self, data: bytes) -> None:
        self._pieces.append(data)
        self._bytes += len(data)
        if len(self._pieces) > 1 or self._bytes >= JOINED_BYTES_MAX:
            self._flush()
        else:
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._bytes = 0
            if not self._transport.is_closing():
                self._transport.write(data)


class BoundedHeads(HttpToolsProtocol):
    """Closes a connection whose head is too large (431), does not come to an end, or has no body behind it.

    A request that arrives in one piece costs nothing more.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._is_awaited = True
        """Nothing of the body is here yet."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        joining = JoinedWrites(cast("asyncio.Transport", transport), self.loop)
        super().connection_made(cast("asyncio.Transport", joining))
        self._timer = self.loop.call_later(HEAD_S_MAX, self._too_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_begun()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_awaited and self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(HEAD_S_MAX, self._too_late)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                # Behind a request that is not answered yet, the 431 would be read as that one's answer.
                if self.cycle is None or self.cycle.response_complete:
                    self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        self._in_head = self._is_awaited = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_begun()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_begun()
        super().on_message_complete()

    def _has_begun(self) -> None:
        self._is_awaited = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        self._timer = None
        if self.pipeline:  # we do not read on before the requests ahead of it are answered
            self._timer = self.loop.call_later(HEAD_S_MAX, self._too_late)
        else:
            self.transport.close()
