"""Processes that a test kills and starts again, and the ways in which they die."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support.dying import Point
from tests.support.prepared import Prepared

START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0
ORDER_S_MAX: Final = 30.0
POINT_S_MAX: Final = 2.0
"""How long traffic has to reach an armed fault point; one that gets none is killed from outside."""
RANDOM_S_MAX: Final = 0.3


class Death(enum.Enum):
    ANY_MOMENT = "at a random millisecond"
    BEFORE_COMMIT = "before COMMIT"
    AFTER_COMMIT = "between COMMIT and answer"


_POINTS: Final = {Death.BEFORE_COMMIT: Point.BEFORE_COMMIT, Death.AFTER_COMMIT: Point.AFTER_COMMIT}


class Victim:
    """A server process (``tests.support.dying``). ``port`` is where its current life listens."""

    def __init__(self, name: str, arguments: Callable[[int], list[str]], log: Path) -> None:
        """``arguments`` of the port that the life before had (0 for the first)."""
        self.name = name
        self.port = 0
        self._arguments = arguments
        self._log = log
        self._process: Prepared | None = None

    async def start(self) -> None:
        """Returns when its door accepts. RuntimeError, with the log, when it does not start."""
        self._process = await Prepared.start("tests.support.dying", self._arguments(self.port), log=self._log)
        line = await asyncio.wait_for(self._process.stdout.readline(), START_S_MAX)
        if not line:
            raise RuntimeError(f"{self.name} did not start: {self._said()}")
        self.port = int(json.loads(line)["port"])

    async def obey(self, order: str, value: float) -> None:
        """Gives an order (``tests.support.orders``); returns when it was carried out."""
        assert self._process is not None
        line = json.dumps({order: value}).encode() + b"\n"
        self._process.stdin.write(line)
        assert await asyncio.wait_for(self._process.stdout.readline(), ORDER_S_MAX) == line

    def freeze(self) -> None:
        """SIGSTOP, until ``thaw``."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def die(self, death: Death, chance: random.Random) -> bool:
        """Dies by SIGKILL; False when the fault point was not reached and it was killed from outside."""
        assert self._process is not None
        assert self.lives, f"{self.name} died by itself: {self._said()}"
        reached = False
        point = _POINTS.get(death)
        if point is None:
            reached = True
            await asyncio.sleep(chance.uniform(0, RANDOM_S_MAX))
        else:
            self._process.send_signal(point.value)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), POINT_S_MAX)
                reached = True
        self._process.kill()
        assert await asyncio.wait_for(self._process.wait(), STOP_S_MAX) == -signal.SIGKILL
        self._process.close()
        return reached

    @property
    def lives(self) -> bool:
        """It was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    def account(self) -> str:
        """How it is and what it last said, for whoever reads why a test failed."""
        ended = "was not started" if self._process is None else f"ended with {self._process.returncode}"
        state = "lives" if self.lives else ended
        return f"{self.name} at port {self.port} {state}; its log ends: {self._said()}"

    def _said(self) -> str:
        return self._log.read_text()[-4000:] if self._log.exists() else ""

    async def stop(self) -> None:
        """Ends it cleanly; kills it when that takes too long."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_S_MAX)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._process.close()
