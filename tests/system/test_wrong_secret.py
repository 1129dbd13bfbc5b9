"""The backend's secret is wrong for a while: shipping halts, tells a person, spends no attempt, goes on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.dying import SECRET
from tests.support.load import ANSWER_S_MAX
from tests.system.conftest import Reckon
from tests.system.stage import Stage, playing

HALTED = "shipper.halted"


async def start_again(stage: Stage) -> None:
    for backend in stage.pair:
        await backend.stop()
    for backend in stage.pair:
        await backend.start()


async def ends_within_one_back_off(stage: Stage) -> None:
    """The first probe after the repair opens the gate: none is refused and lengthens the wait."""
    shipper = (await stage.told("anything", lambda _document: True))["shipper"]
    probe_at = shipper["next_probe_at"]
    if probe_at is None:
        return
    left_s = (datetime.fromisoformat(probe_at) - datetime.now(UTC)).total_seconds()
    open_again = await stage.told(
        "the halt is over, or longer",
        lambda document: document["shipper"]["next_probe_at"] != probe_at,
        seconds_max=max(0.0, left_s) + ANSWER_S_MAX,
    )
    assert open_again["shipper"]["next_probe_at"] is None, "a probe failed after the repair"


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.chaos)])
@pytest.mark.timeout(600)
async def test_a_wrong_secret_halts_shipping_and_nothing_else(
    dsn: str, tmp_path: Path, rounds: int, seed: int, reckon: Reckon
) -> None:
    secret = SECRET
    async with playing(dsn, tmp_path, seed=seed, secret=lambda: secret) as stage:
        for _ in range(rounds):
            await stage.in_full_swing()
            secret = b"another-secret-than-the-collector"
            await start_again(stage)
            await stage.has_alert(HALTED)
            await stage.acknowledged_more()
            stage.assert_untouched()
            secret = SECRET
            await start_again(stage)
            await ends_within_one_back_off(stage)
            await stage.alert_is_over(HALTED)
            await stage.is_healed()
        dead = (await stage.told("anything", lambda _document: True))["outbox"]["dead"]
        assert dead == 0, "nobody's record was at fault"
    assert set(stage.driver.statuses) == {200}
    await reckon("secret wrong", dsn=dsn, ledger=stage.driver.ledger, rounds=rounds)
