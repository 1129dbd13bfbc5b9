"""HTTP/1.1 of uvicorn with a limit for the size of a request's head and for the time it may take."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX: Final = 64 * 1024
HEAD_S_MAX: Final = 20.0
"""From the connection, or the first byte of a later request, to the end of its head."""

_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


class BoundedHeads(HttpToolsProtocol):
    """Closes a connection whose head is too large (431) or does not come to an end.

    A head that arrives in one piece costs nothing more.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_S_MAX, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_over()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_timer is None:
                self._head_timer = self.loop.call_later(HEAD_S_MAX, self.transport.close)
            if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                # Behind a request that is not answered yet, the 431 would be read as that one's answer.
                if self.cycle is None or self.cycle.response_complete:
                    self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._head_timer is not None or self._head_bytes:
            self._head_is_over()
        super().on_headers_complete()

    def _head_is_over(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
