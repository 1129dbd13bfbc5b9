"""An outbox that fills up: its operator is told in time, the gateway comes again, nothing is dropped."""

from __future__ import annotations

from pathlib import Path

from tests.collector.running import Running, collector_config, eventually, limits, message, running
from tests.collector.scripted import Reply, Request, ScriptedBackend

ROWS_MAX = 5


class Outage:
    """A backend that is away until ``over``."""

    def __init__(self) -> None:
        self.over = False

    def __call__(self, _request: Request) -> Reply | None:
        return None if self.over else Reply(503)


async def post(collector: Running, number: int) -> int:
    return (await collector.post("/gateways/evolution/loja-sp", message(number))).status_code


async def test_a_full_outbox_answers_503_and_heals_without_a_restart(tmp_path: Path) -> None:
    outage = Outage()
    async with ScriptedBackend(script=outage) as backend:
        config = collector_config(
            tmp_path, backend.url, limits=limits(outbox_rows_max=ROWS_MAX, housekeeping_s=0.1)
        )
        async with running(config) as collector:
            assert [await post(collector, n) for n in range(4)] == [200] * 4

            async def filling() -> bool:
                return "outbox.filling" in await collector.alerts()

            await eventually(filling, "outbox.filling at 80 %")
            assert await post(collector, 4) == 200
            assert await post(collector, 5) == 503
            assert "outbox.full" in await collector.alerts()
            assert await post(collector, 0) == 200, "a copy needs no room"
            assert (await collector.outbox())["waiting"] == ROWS_MAX
            assert (await collector.outbox())["full_share"] == 1.0
            assert (await collector.totals())["outbox.full"] == 1
            outage.over = True

            async def accepted() -> bool:
                return await post(collector, 5) == 200

            await eventually(accepted, "room again")
            await eventually(lambda: len(backend.stored) == ROWS_MAX + 1, "everything shipped")

            async def quiet() -> bool:
                return not {"outbox.filling", "outbox.full"} & await collector.alerts()

            await eventually(quiet, "both alerts resolved")
