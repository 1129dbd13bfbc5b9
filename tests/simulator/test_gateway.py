"""The simulated gateway keeps Evolution's rules for answers; the collector here misbehaves on purpose."""

from __future__ import annotations

import asyncio
import socket
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvloop

from asgi.answers import send_answer
from asgi.server import HttpServer
from asgi.types import Receive, Scope, Send
from simulator.gateway import Gateway, Patience, Tally, paced
from simulator.story import Webhook

TURNS_MAX = 14
"""Of the loop, within which a connection is made."""
QUICK = Patience(wait_s=0.001, wait_s_max=0.01, timeout_s=0.3, attempts_max=4, in_flight_max=3)


class MoodyCollector:
    """Answers the n-th post of a body with the n-th of its statuses (the last one again and again)."""

    def __init__(self, moods: dict[str, list[int]]) -> None:
        self.moods = moods
        self.seen: defaultdict[str, int] = defaultdict(int)
        self.paths: set[str] = set()
        self.in_flight_most = 0
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._in_flight += 1
        self.in_flight_most = max(self.in_flight_most, self._in_flight)
        body = (await receive())["body"].decode()
        self.paths.add(scope["path"])
        statuses = self.moods.get(body, [200])
        status = statuses[min(self.seen[body], len(statuses) - 1)]
        self.seen[body] += 1
        if status == 0:
            await asyncio.sleep(1)
        headers = [(b"location", b"/elsewhere")] if status == 302 else []
        await send_answer(send, status or 200, b"", headers=headers)
        self._in_flight -= 1


@asynccontextmanager
async def serving(collector: MoodyCollector) -> AsyncIterator[str]:
    server = HttpServer(collector)
    port = await server.start()
    try:
        yield f"http://127.0.0.1:{port}/gateways/evolution"
    finally:
        await server.stop(0.1)


async def post(collector: MoodyCollector, *bodies: str) -> Tally:
    hooks = [Webhook(instance="loja", event="e", body=body.encode()) for body in bodies]
    async with serving(collector) as url:
        return await Gateway(url, seed=1, patience=QUICK).run(paced(hooks, 10_000))


async def test_trouble_is_repeated_with_the_same_bytes_until_it_is_answered() -> None:
    collector = MoodyCollector({"a": [503, 429, 200]})
    tally = await post(collector, "a", "b")
    assert dict(collector.seen) == {"a": 3, "b": 1}
    assert collector.paths == {"/gateways/evolution/loja"}
    assert (tally.posted, tally.answered, tally.repeated, tally.dropped) == (4, 2, 2, {})


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_evolution_gives_up_is_posted_once(status: int) -> None:
    collector = MoodyCollector({"a": [status]})
    tally = await post(collector, "a")
    assert dict(collector.seen) == {"a": 1}
    assert (tally.answered, tally.dropped) == (0, {str(status): 1})


def test_a_connection_that_is_reset_while_it_is_made_is_trouble() -> None:
    """As a killed collector does it. On uvloop, as in the process: there anyio asks a socket that is gone."""

    async def post_to_one_that_ends(turns: int) -> Tally:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/gateways/evolution"
            patience = Patience(attempts_max=1, wait_s=0.001)
            hooks = paced([Webhook(instance="loja", event="e", body=b"a")], 10_000)
            posting = asyncio.create_task(Gateway(url, seed=1, patience=patience).run(hooks))
            for _ in range(turns):
                await asyncio.sleep(0)
            listener.close()
            return await posting

    async def many() -> list[Tally]:
        return [await post_to_one_that_ends(turns % TURNS_MAX) for turns in range(3 * TURNS_MAX)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        tallies = runner.run(many())
    assert [tally.dropped for tally in tallies] == [{"attempts": 1}] * len(tallies)


async def test_a_redirect_loses_the_event() -> None:
    collector = MoodyCollector({"a": [302]})
    assert (await post(collector, "a")).dropped == {"302": 1}
    assert dict(collector.seen) == {"a": 1}


async def test_attempts_end() -> None:
    collector = MoodyCollector({"a": [500]})
    assert (await post(collector, "a")).dropped == {"attempts": 1}
    assert collector.seen["a"] == QUICK.attempts_max


async def test_a_hanging_collector_is_asked_again() -> None:
    collector = MoodyCollector({"a": [0, 200]})
    tally = await post(collector, "a")
    assert (collector.seen["a"], tally.answered) == (2, 1)


async def test_in_flight_is_bounded() -> None:
    collector = MoodyCollector({})
    await post(collector, *(str(number) for number in range(60)))
    assert 1 <= collector.in_flight_most <= QUICK.in_flight_max
    assert len(collector.seen) == 60
