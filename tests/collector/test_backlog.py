"""A backend that is away is told by the number that waits and by how long the oldest has waited."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

from collector.alerts import Alerts
from collector.backlog import LATE_LOOKS, Backlog
from outbox.clock import ManualClock
from tests.collector.running import collector_config, eventually, limits, message, running
from tests.collector.scripted import ScriptedBackend

AGE_S_MAX = limits().backlog_alert_age_s
RECORDS_MAX = limits().backlog_alert_records
DAYS = timedelta(days=3)


class Watched:
    """A backlog and what it told."""

    def __init__(self) -> None:
        self.alerts = Alerts(now=ManualClock().now, kept_max=10)
        self.backlog = Backlog(limits(), self.alerts)

    def look(
        self, waiting: int, oldest_age_s: float | None, times: int = 1, failure: str | None = None
    ) -> list[str]:
        for _ in range(times):
            self.backlog.look(waiting=waiting, oldest_age_s=oldest_age_s, last_failure=failure)
        return [line["what"] for line in self.alerts.recent()]


def test_one_record_that_waits_for_long_is_told_with_its_age_and_what_is_in_its_way() -> None:
    watched = Watched()
    assert watched.look(1, AGE_S_MAX - 1, times=LATE_LOOKS) == []
    assert watched.look(1, AGE_S_MAX, times=LATE_LOOKS - 1) == []
    assert watched.look(1, DAYS.total_seconds(), failure="connect") == ["raised"]
    detail = watched.alerts.recent()[0]["detail"]
    assert detail == "1 records wait, the oldest for 3 days, 0:00:00; the last request: connect"


def test_old_records_that_pass_by_are_no_backlog() -> None:
    """As letters do that are put back at a pace: between them the queue is empty."""
    watched = Watched()
    for _ in range(LATE_LOOKS):
        watched.look(50, DAYS.total_seconds(), times=LATE_LOOKS - 1)
        assert watched.look(0, None) == []


def test_it_ends_when_number_and_age_are_well_below_their_limits() -> None:
    watched = Watched()
    assert watched.look(RECORDS_MAX, 1) == ["raised"]
    assert watched.look(10, AGE_S_MAX, times=LATE_LOOKS) == ["raised"]
    assert watched.look(10, AGE_S_MAX - 1) == ["raised"]
    assert watched.look(RECORDS_MAX // 2, 1) == ["raised"]
    assert watched.look(10, 1) == ["raised", "resolved"]


async def test_a_small_collector_whose_backend_is_away_says_so_until_it_is_back(tmp_path: Path) -> None:
    told: list[tuple[str, ...]] = []
    ahead_s = [0.0]
    async with ScriptedBackend() as gone:
        port = int(gone.url.rpartition(":")[2])
    config = collector_config(tmp_path, f"http://127.0.0.1:{port}", limits=limits(housekeeping_s=0.05))
    async with running(
        config, on_alert=lambda *line: told.append(line), wall_s=lambda: time.time() + ahead_s[0]
    ) as collector:
        for number in range(3):
            assert (await collector.post("/gateways/evolution/loja-sp", message(number))).status_code == 200

        async def has_met_nobody() -> bool:
            return bool((await collector.status())["shipper"]["last_failure"] == "connect")

        await eventually(has_met_nobody, "it was tried")
        ahead_s[0] = DAYS.total_seconds()
        await eventually(lambda: bool(told), "somebody is told")
        what, alert, _subject, detail = told[0]
        assert (what, alert) == ("raised", "outbox.backlog")
        assert detail.startswith("3 records wait, the oldest for 3 days")
        assert detail.endswith("the last request: connect")
        async with ScriptedBackend(port=port) as back:
            await eventually(lambda: len(back.stored) == 3, "shipped when it is back")
            await eventually(lambda: [line[0] for line in told] == ["raised", "resolved"], "it is over")
