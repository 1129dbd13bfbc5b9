"""Posts webhooks as Evolution does: in parallel, repeated on trouble, given up on 400, 401, 403, 404, 422."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

import httpx
import structlog

from simulator.story import Webhook

_log: Final = structlog.get_logger("simulator")

GIVEN_UP: Final = frozenset({400, 401, 403, 404, 422})
"""Evolution's nonRetryableStatusCodes: one attempt, then the event is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Evolution's retry rules with shorter waits: doubling from ``wait_s``, ±20 %, capped."""

    attempts_max: int = 10
    wait_s: float = 0.2
    wait_s_max: float = 5.0
    timeout_s: float = 30.0
    in_flight_max: int = 64


@dataclass(slots=True)
class Tally:
    """What became of the posts."""

    posted: int = 0
    answered: int = 0
    repeated: int = 0
    dropped: dict[str, int] = field(default_factory=dict)


async def paced(source: Iterable[Webhook], per_second: float) -> AsyncIterator[Webhook]:
    """The webhooks at an even rate; behind the clock, the next ones come at once."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    for webhook in source:
        await asyncio.sleep(max(0.0, due - loop.time()))
        due = max(due + 1.0 / per_second, loop.time() - 1.0)
        yield webhook


class Gateway:
    """A sender with one client; ``run`` ends when the source does or when it is cancelled."""

    def __init__(
        self, url: str, *, seed: int, patience: Patience | None = None, headers: dict[str, str] | None = None
    ) -> None:
        """``url`` is the collector's door of this gateway, such as http://127.0.0.1:8080/gateways/evolution."""
        self.tally = Tally()
        self._url = url.rstrip("/")
        self._patience = patience or Patience()
        self._headers = {"Content-Type": "application/json", "User-Agent": "axios/1.13.2", **(headers or {})}
        self._rng = Random(seed)  # noqa: S311 (waits, not secrets)

    async def run(self, source: AsyncIterator[Webhook]) -> Tally:
        """Posts every webhook of ``source``; waits for the last answer."""
        slots = asyncio.Semaphore(self._patience.in_flight_max)
        timeout = httpx.Timeout(self._patience.timeout_s)
        async with (
            httpx.AsyncClient(timeout=timeout, trust_env=False) as client,
            asyncio.TaskGroup() as tasks,
        ):
            async for webhook in source:
                await slots.acquire()
                task = tasks.create_task(self._deliver(client, webhook))
                task.add_done_callback(lambda _: slots.release())
        return self.tally

    async def _deliver(self, client: httpx.AsyncClient, webhook: Webhook) -> None:
        wait_s = self._patience.wait_s
        for attempt in range(1, self._patience.attempts_max + 1):
            self.tally.posted += 1
            self.tally.repeated += attempt > 1
            outcome = await self._post(client, webhook)
            if outcome == "answered":
                self.tally.answered += 1
                return
            if outcome != "trouble":
                self._drop(outcome)
                return
            await asyncio.sleep(min(wait_s, self._patience.wait_s_max) * self._rng.uniform(0.8, 1.2))
            wait_s *= 2
        self._drop("attempts")

    async def _post(self, client: httpx.AsyncClient, webhook: Webhook) -> str:
        try:
            answer = await client.post(
                f"{self._url}/{webhook.instance}", content=webhook.body, headers=self._headers
            )
        except httpx.TransportError:
            return "trouble"
        except Exception as error:
            # No answer either, whatever the other side did. A connection that is reset while it is made is an
            # AttributeError of anyio, which asks a socket that is gone.
            _log.warning("simulator.odd_answer", error=type(error).__name__)
            return "trouble"
        if answer.is_success:
            return "answered"
        if answer.status_code in GIVEN_UP or answer.is_redirect:
            return str(answer.status_code)
        return "trouble"

    def _drop(self, reason: str) -> None:
        self.tally.dropped[reason] = self.tally.dropped.get(reason, 0) + 1
