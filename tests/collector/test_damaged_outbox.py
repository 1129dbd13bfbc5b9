"""A collector whose outbox file was damaged: it starts, ships what could be read and tells its operator."""

from __future__ import annotations

from pathlib import Path

from outbox.sqlite import open_sqlite
from outbox.sqlite_file import FILE_NAME
from tests.collector.running import collector_config, eventually, message, running
from tests.collector.scripted import ScriptedBackend
from tests.outbox.records import new


async def test_a_truncated_file_is_told_and_the_service_goes_on(tmp_path: Path) -> None:
    async with ScriptedBackend() as backend:
        config = collector_config(tmp_path, backend.url)
        store = await open_sqlite(config.data_folder)
        await store.put([new(f"kept-{number}", b"{}" * 500) for number in range(40)])
        await store.close()
        path = config.data_folder / FILE_NAME
        path.write_bytes(path.read_bytes()[:-4096])
        async with running(config) as collector:
            response = await collector.post("/gateways/evolution/loja-sp", message(1))
            assert response.status_code == 200

            async def told() -> bool:
                return "outbox.corrupt" in await collector.alerts()

            await eventually(told, "the alert")
            await eventually(lambda: len(backend.stored) > 20, "what could be read is shipped")
            assert len(list(config.data_folder.glob(f"{FILE_NAME}.corrupt-*"))) >= 1
