"""Where disasters play: a collector and two backends, each a process of its own, under traffic.

And what must be true of them during a disaster and after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outbox.sqlite_file import FILE_NAME
from tests.support.dying import SECRET
from tests.support.load import Driver, Post, until
from tests.system import posts
from tests.system.ledger import Ledger
from tests.system.victims import Victim

IN_FLIGHT_MIN = 64
CLIENTS = 96
IN_FLIGHT_S_MAX = 30.0
REQUEST_TIMEOUT_S = 3.0
"""Of the collector, short: a test sees what follows when somebody does not answer."""
CALM_S = 0.05
"""What a client waits between two events while processes start or a disaster lasts."""
STEP = 200
"""Acknowledgements that show that a door works."""
STEP_S_MAX = 60.0
DRAIN_S_MAX = 120.0


@contextlib.asynccontextmanager
async def living(victims: Sequence[Victim]) -> AsyncIterator[None]:
    """They run inside the block, and at its end still; what fails comes out with an account of each."""
    try:
        for victim in victims:
            await victim.start()
        yield
        assert all(victim.lives for victim in victims), "one ended by itself"
    except Exception as error:
        for victim in victims:
            error.add_note(victim.account())
        raise
    finally:
        for victim in reversed(victims):
            await victim.stop()


def backends(dsn: str, folder: Path, secret: Callable[[], bytes] = lambda: SECRET) -> list[Victim]:
    """Two serve processes on one port; the port stays taken as long as one of them lives.

    Each of their lives takes the ``secret`` of its start.
    """

    def serve(port: int) -> list[str]:
        return ["ingest", "--dsn", dsn, "--port", str(port), "--secret", secret().decode()]

    first = Victim("serve-1", serve, folder / "serve-1.log")
    second = Victim("serve-2", lambda port: serve(port or first.port), folder / "serve-2.log")
    return [first, second]


def shipping_to(backend: Victim, folder: Path) -> Victim:
    """A collector; each of its lives ships to where ``backend`` listens then."""

    def arguments(_port: int) -> list[str]:
        url = f"http://127.0.0.1:{backend.port}"
        timeout = ["--request-timeout-s", str(REQUEST_TIMEOUT_S)]
        return ["collector", "--folder", str(folder / "outbox"), "--backend-url", url, *timeout]

    return Victim("collector", arguments, folder / "collector.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A collector that ships to two backends, and the traffic at its door."""

    collector: Victim
    pair: list[Victim]
    driver: Driver
    driving: asyncio.Task[None]
    outbox: Path

    async def in_full_swing(self) -> None:
        await in_full_swing(self.driver, self.driving)

    async def acknowledged_more(self) -> None:
        """Returns when the door took STEP events more."""
        before = len(self.driver.ledger.acknowledged)
        await until(
            f"{STEP} more acknowledged",
            lambda: len(self.driver.ledger.acknowledged) >= before + STEP,
            seconds_max=STEP_S_MAX,
        )

    async def refused_more(self) -> None:
        """Returns when as many requests as there are clients got 503."""
        before = self.driver.statuses[503]
        await until(
            "503", lambda: self.driver.statuses[503] >= before + self.driver.clients, seconds_max=STEP_S_MAX
        )

    async def told(
        self, what: str, condition: Callable[[dict[str, Any]], bool], *, seconds_max: float = STEP_S_MAX
    ) -> dict[str, Any]:
        """The collector's first status of which the condition is true."""
        last: dict[str, Any] = {}
        try:
            async with asyncio.timeout(seconds_max):
                while not condition(last := await asyncio.to_thread(status, self.collector.port)):
                    await asyncio.sleep(0.02)
        except TimeoutError as error:
            raise TimeoutError(f"not within {seconds_max} s: {what}; {last['shipper']}") from error
        return last

    async def has_alert(self, alert: str) -> None:
        await self.told(f"{alert} raised", lambda document: alert in alerts(document))

    async def alert_is_over(self, alert: str) -> None:
        await self.told(f"{alert} resolved", lambda document: alert not in alerts(document))

    async def gate_is_shut(self) -> None:
        await self.told("the gate is shut", lambda document: bool(document["shipper"]["next_probe_at"]))

    async def shipped(self) -> None:
        """Returns when nothing waits any more."""
        await self.told(
            "the outbox is empty",
            lambda document: document["outbox"]["waiting"] == 0,
            seconds_max=DRAIN_S_MAX,
        )

    async def is_healed(self) -> None:
        """Returns when the gate is open and what waits by then was shipped.

        Without it the next outage would be one of a destination that flaps: a record that fails alone in two
        outages, with successes between, is taken for a poison and spends one attempt.
        """
        await self.told("the gate is open", lambda document: document["shipper"]["next_probe_at"] is None)
        await self.shipped_of({row.id for row in waiting_rows(self.outbox)})

    async def shipped_of(self, ids: set[str]) -> None:
        """Returns when none of these waits any more, whatever else does."""
        async with asyncio.timeout(DRAIN_S_MAX):
            while ids & {row.id for row in await asyncio.to_thread(waiting_rows, self.outbox)}:
                await asyncio.sleep(0.05)

    def assert_untouched(self) -> set[str]:
        """Records wait, and each of them as it was put: no attempt, no reason, no other schedule.

        Returns their ids.
        """
        waiting = waiting_rows(self.outbox)
        assert waiting, "nothing waits"
        rewritten = [row for row in waiting if row.is_rewritten]
        assert not rewritten, f"{len(rewritten)} of {len(waiting)} were rewritten, such as {rewritten[0]}"
        return {row.id for row in waiting}


@contextlib.asynccontextmanager
async def playing(
    dsn: str,
    folder: Path,
    *,
    seed: int,
    make: Callable[[int], Post] = posts.webhook,
    outbox: Path | None = None,
    secret: Callable[[], bytes] = lambda: SECRET,
) -> AsyncIterator[Stage]:
    """All of it under traffic; at the end the outbox has been shipped empty.

    ``make`` builds the event of a number; ``outbox`` is the folder above the outbox's own.
    """
    print(f"ZAPLAKE_SEED={seed}")
    pair = backends(dsn, folder, secret)
    collector = shipping_to(pair[0], outbox or folder)
    driver = Driver(make=make, ports=lambda: [collector.port], ledger=Ledger(), clients=CLIENTS, seed=seed)
    async with living([*pair, collector]):
        driving = asyncio.create_task(driver.run())
        stage = Stage(
            collector=collector,
            pair=pair,
            driver=driver,
            driving=driving,
            outbox=(outbox or folder) / "outbox",
        )
        try:
            yield stage
        finally:
            driver.stop.set()
            await driving
        await stage.shipped()


async def in_full_swing(driver: Driver, driving: asyncio.Task[None]) -> None:
    """Returns when enough requests are in flight and something new was acknowledged; then traffic calms."""
    before = len(driver.ledger.acknowledged)

    def swinging() -> bool:
        assert not driving.done(), "the driver ended"
        return driver.in_flight >= IN_FLIGHT_MIN and len(driver.ledger.acknowledged) > before

    answered = driver.statuses.copy()
    driver.pause_s = 0
    try:
        await until(f"{IN_FLIGHT_MIN} requests in flight", swinging, seconds_max=IN_FLIGHT_S_MAX)
    except TimeoutError as error:
        error.add_note(f"{driver.in_flight} in flight, answers meanwhile: {dict(driver.statuses - answered)}")
        raise
    driver.pause_s = CALM_S


def status(port: int) -> dict[str, Any]:
    """The collector's status document."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=STEP_S_MAX) as answer:
        document: dict[str, Any] = json.load(answer)
    return document


def waiting(port: int) -> int:
    """Records in the collector's outbox."""
    return int(status(port)["outbox"]["waiting"])


def alerts(document: dict[str, Any]) -> set[str]:
    """Names of the alerts that last."""
    return {alert["alert"] for alert in document["alerts"]["active"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """A waiting record, as its file has it."""

    id: str
    created_at: int
    due_at: int
    attempts: int
    status: int | None
    waits_because: str

    @property
    def is_rewritten(self) -> bool:
        was_tried = self.attempts > 0 or self.status is not None or self.waits_because != ""
        return was_tried or self.due_at != self.created_at


def waiting_rows(outbox: Path) -> list[WaitingRow]:
    """Everything that waits in the file, read beside the process that has it open."""
    uri = f"{(outbox / FILE_NAME).absolute().as_uri()}?mode=ro"
    names = "id, created_at, due_at, attempts, status, waits_because"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        rows = connection.execute(f"SELECT {names} FROM outbox JOIN ids USING (rowid)").fetchall()
    return [WaitingRow(**dict(zip(names.split(", "), row, strict=True))) for row in rows]
