"""Where apprise's ``json://`` URLs lead to: a real HTTP server that keeps what it is told."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from asgi.answers import send_answer
from asgi.body import BodyBudget, read_body
from asgi.server import HttpServer
from asgi.types import Receive, Scope, Send


@dataclass
class Receiver:
    """Answers 200, or what ``statuses`` says first; ``hangs`` never answers."""

    statuses: list[int] = field(default_factory=list)
    hangs: bool = False
    told: list[dict[str, Any]] = field(default_factory=list)
    """What was answered 200."""
    refused: int = 0
    url: str = ""

    @property
    def text(self) -> str:
        """Everything that was told."""
        return "\n".join(f"{message['title']}\n{message['message']}" for message in self.told)

    async def __aenter__(self) -> Self:
        self._server = HttpServer(self)
        self._budget = BodyBudget(1 << 20)
        self.url = f"json://127.0.0.1:{await self._server.start()}/a-secret-path"
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._server.stop(0.1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        body = await read_body(scope, receive, body_bytes_max=1 << 20, budget=self._budget)
        self._budget.give(len(body))
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            self.told.append(json.loads(body))
        else:
            self.refused += 1
        await send_answer(send, status, b"{}")
