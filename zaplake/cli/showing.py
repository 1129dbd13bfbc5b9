"""What the commands show alike: how far they are, on stderr, and moments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

Told: TypeAlias = Callable[[int], None]
"""Hears how much is done, from the beginning on."""


def reading(file: Path) -> contextlib.AbstractContextManager[Told]:
    """A bar over the bytes of ``file``."""
    return _bar(file.name, file.stat().st_size, DownloadColumn())


def counting(what: str, total: int) -> contextlib.AbstractContextManager[Told]:
    """A bar over ``total`` things."""
    return _bar(what, total, MofNCompleteColumn())


@contextlib.contextmanager
def _bar(what: str, total: int, measure: ProgressColumn) -> Iterator[Told]:
    columns = (TextColumn("{task.description}"), BarColumn(), measure, TimeRemainingColumn())
    progress = Progress(*columns, console=Console(stderr=True), refresh_per_second=4)
    task = progress.add_task(what, total=total)

    def told(done: int) -> None:
        progress.update(task, completed=done)
        progress.start()

    with ended(progress):
        yield told


@contextlib.contextmanager
def ended(progress: Progress) -> Iterator[None]:
    """Ends what may not have begun: an error before the first step is all that is said."""
    try:
        yield
    finally:
        if progress.live.is_started:
            progress.stop()


def second(moment: str) -> str:
    """An RFC 3339 moment in UTC, short enough for a column."""
    return moment[:19].replace("T", " ")
