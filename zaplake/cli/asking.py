"""How a command talks to the collector of a data folder, living or stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from collector.control import NotAnswering, NotRunning
from collector.offline import Session, request, session
from collector.verbs import OnProgress, VerbError, unheard
from outbox.store import StoreBusy, StoreError
from zaplake.settings import Settings
from zaplake.trouble import Trouble, collector_hangs
from zaplake.wiring import outbox_folder, verbs_config

T = TypeVar("T")


def ask(
    settings: Settings,
    wanted: Mapping[str, object],
    on_progress: OnProgress = unheard,
    *,
    create: bool = False,
) -> tuple[dict[str, Any], bool]:
    """The collector's answer, and whether it lives. Raises Trouble."""
    with _translated(outbox_folder(settings), create=create):
        return asyncio.run(request(verbs_config(settings), wanted, on_progress))


def converse(settings: Settings, talk: Callable[[Session], Awaitable[T]], *, create: bool = False) -> T:
    """The result of many requests, which ``talk`` makes. Raises Trouble."""

    async def conversation() -> T:
        async with session(verbs_config(settings)) as opened:
            return await talk(opened)

    with _translated(outbox_folder(settings), create=create):
        return asyncio.run(conversation())


@contextlib.contextmanager
def _translated(folder: Path, *, create: bool) -> Iterator[None]:
    if not create and not folder.is_dir():
        raise Trouble(
            f"no collector has kept anything in {folder}",
            "name its folder with --data-dir, or start one: `zaplake up` or `zaplake collect`",
        )
    try:
        yield
    except VerbError as error:
        raise Trouble(
            f"{error}", "`zaplake collector status` and `zaplake collector dead list` show what there is"
        ) from error
    except StoreBusy as error:
        raise Trouble(
            f"the collector of {folder} is starting or stopping", "try again in a few seconds"
        ) from error
    except NotAnswering as error:
        raise collector_hangs(folder) from error
    except NotRunning as error:
        raise Trouble(
            f"the collector of {folder} ended meanwhile", "run it again: nothing is done twice"
        ) from error
    except (StoreError, ConnectionError, PermissionError) as error:
        raise Trouble(
            f"the outbox in {folder} cannot be used: {error}",
            "free the disk, repair the data folder, or name another with --data-dir",
        ) from error
