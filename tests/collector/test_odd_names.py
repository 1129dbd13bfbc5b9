"""Names that no UTF-8 can hold, in a body or a path: they must not end the heartbeat and so the process."""

from __future__ import annotations

from pathlib import Path

from tests.collector.running import collector_config, eventually, running
from tests.collector.scripted import ScriptedBackend

ODD_BODIES = (
    b'{"event":"connection.update","instance":"a\\ud800b","data":{"state":"open"},"date_time":"2026-01-01"}',
    b'{"event":"connection.update","instance":"a\\u0000b","data":{"state":"open"},"date_time":"2026-01-01"}',
    b'{"event":"connection.update","instance":"ok","data":{"state":"op\\ud801en"},"date_time":"2026-01-01"}',
    b'{"event":"connection.update","instance":"long","data":{"state":"%s"},"date_time":"2026-01-01"}'
    % (b"x" * 100_000),
)


async def test_odd_names_are_stored_apart_and_told(tmp_path: Path) -> None:
    async with (
        ScriptedBackend() as backend,
        running(collector_config(tmp_path, backend.url, heartbeat_s=0.1)) as collector,
    ):
        for body in ODD_BODIES:
            assert (await collector.post("/gateways/evolution", body)).status_code == 200
        nothing = b'{"event":"connection.update","data":{"state":"open"},"date_time":"2026-01-02"}'
        assert (await collector.post("/gateways/evolution/a%00c", nothing)).status_code == 200

        def told() -> bool:
            return bool(backend.heartbeats) and len(backend.heartbeats[-1]["instances"]) == 5

        await eventually(told, "a heartbeat names all five instances")
        await eventually(lambda: len(backend.stored) == 5, "all five are stored")
        assert (await collector.client.get("/status")).status_code == 200
        assert not collector.task.done()
    instances = backend.heartbeats[-1]["instances"]
    assert len({instance["instance"] for instance in instances}) == 5
    assert all(len(instance["state"] or "") <= 50 for instance in instances)
