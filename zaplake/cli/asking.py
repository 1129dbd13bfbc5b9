"""How a command talks to the collector of a data folder, living or stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from collector.offline import request
from collector.verbs import Document, OnProgress, VerbError
from outbox.store import StoreBusy, StoreError
from zaplake.settings import Settings
from zaplake.trouble import Trouble
from zaplake.wiring import outbox_folder, verbs_config


async def _unheard(_progress: Document) -> None:
    return


def ask(
    settings: Settings,
    wanted: Mapping[str, object],
    on_progress: OnProgress = _unheard,
    *,
    create: bool = False,
) -> tuple[dict[str, Any], bool]:
    """The collector's answer, and whether it lives. Raises Trouble."""
    folder = outbox_folder(settings)
    if not create and not folder.is_dir():
        raise Trouble(
            f"no collector has kept anything in {folder}",
            "name its folder with --data-dir, or start one: `zaplake up` or `zaplake collect`",
        )
    try:
        return asyncio.run(request(verbs_config(settings), wanted, on_progress))
    except VerbError as error:
        raise Trouble(
            f"{error}", "`zaplake collector status` and `zaplake collector dead list` show what there is"
        ) from error
    except StoreBusy as error:
        raise Trouble(
            f"the collector of {folder} is starting or stopping", "try again in a few seconds"
        ) from error
    except (StoreError, ConnectionError, PermissionError) as error:
        raise Trouble(
            f"the outbox in {folder} cannot be used: {error}",
            "free the disk, repair the data folder, or name another with --data-dir",
        ) from error
