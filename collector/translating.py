"""Bodies become records off the loop where that is long work, and with their media in files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from msgspec.structs import replace

from asgi.body import BodyTooLarge, BudgetExhausted
from collector.config import Limits
from collector.intake import Intake, in_thread
from collector.spool import Spool, Spooled
from collector.translate import NO_FILES, Translation, translate
from contracts.envelope import WRAP_BYTES_MAX
from contracts.signing import BodyMacs
from contracts.standing import PutBack
from contracts.translation import Arrival, Rules


@dataclass(slots=True, kw_only=True)
class Body:
    """One body as it is worked on: what was cut out of it may have to be put back."""

    arrival: Arrival
    spooled: Spooled | None = None
    whole: Arrival | None = None
    """Before it was cut, where that is in memory."""


class Translator:
    """Cuts and translates the bodies of all doors. One for each process."""

    def __init__(self, *, limits: Limits, rules: Rules, spool: Spool) -> None:
        self._limits, self._rules, self._spool = limits, rules, spool
        self._threads = ThreadPoolExecutor(limits.heavy_threads_max, thread_name_prefix="translate")

    def close(self) -> None:
        """Ends the threads; running translations are waited for by their callers."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def intake(self, spooled: Spooled, macs: BodyMacs | None) -> Intake:
        """For one large body, read in steps."""
        return Intake(limits=self._limits, spooled=spooled, threads=self._threads, macs=macs)

    async def cut(self, arrival: Arrival, spools: ExitStack) -> Body:
        """The body with its media in files, which ``spools`` removes when nobody took them over."""
        spooled = self._spool.cutting(arrival.gateway.family) if self._spool.may_cut(arrival.raw) else None
        if spooled is None:
            return Body(arrival=arrival)
        spools.callback(spooled.close)
        try:
            spooled.take_disk(len(arrival.raw))
        except BudgetExhausted:  # it is in memory anyway, and gives the same facts as it is
            return Body(arrival=arrival)
        skeleton = await in_thread(self._threads, _cut, spooled, arrival.raw)
        spooled.take_disk(max(-len(arrival.raw), -len(skeleton)))
        if not spooled.cuts:
            return Body(arrival=arrival)
        return Body(arrival=replace(arrival, raw=skeleton, cuts=spooled.cuts), spooled=spooled, whole=arrival)

    async def translate(self, body: Body) -> Translation:
        """The records of the body. Raises BodyTooLarge when one would be more than a backend takes."""
        while True:
            try:
                translation = await self._translated(body)
            except PutBack as needed:
                await self._put_back(body, needed)
                continue
            largest = max((len(captured.record.body) for captured in translation.captured), default=0)
            if largest > self._limits.body_bytes_max + WRAP_BYTES_MAX:
                raise BodyTooLarge
            return translation

    async def _translated(self, body: Body) -> Translation:
        files = body.spooled.files if body.spooled is not None else NO_FILES
        if len(body.arrival.raw) > self._limits.heavy_body_bytes:
            return await in_thread(self._threads, translate, body.arrival, self._rules, files)
        return translate(body.arrival, self._rules, files)

    async def _put_back(self, body: Body, needed: PutBack) -> None:
        if body.whole is not None:
            body.arrival, body.whole = body.whole, None
            return
        spooled, raw = body.spooled, body.arrival.raw
        assert spooled is not None, "only what was cut is asked for"
        spooled.reserve(raw, needed.cuts)
        raw = await in_thread(self._threads, spooled.put_back, raw, needed.cuts)
        gone = {cut.mark for cut in needed.cuts}
        left = tuple(cut for cut in body.arrival.cuts if cut.mark not in gone)
        body.arrival = replace(body.arrival, raw=raw, cuts=left)


def _cut(spooled: Spooled, raw: bytes) -> bytes:
    return spooled.feed(raw) + spooled.finish()
