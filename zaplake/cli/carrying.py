"""``zaplake collector export`` and ``import``: carry the outbox to a file and to another collector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.progress import Progress, TextColumn

from collector.carrying import STATES
from outbox.kept import KeptState
from zaplake import carry
from zaplake.cli.asking import converse
from zaplake.cli.options import Common, settle
from zaplake.cli.showing import ended, reading
from zaplake.trouble import UsageTrouble
from zaplake.wording import counted


def export(
    file: Path,
    /,
    *,
    waiting: Annotated[bool, Parameter(name="--waiting")] = False,
    dead: Annotated[bool, Parameter(name="--dead")] = False,
    common: Common | None = None,
) -> int:
    """Copy what waits and what died to a file of JSON lines; nothing is removed.

    Works beside a running collector and without one. The file holds messages: it is made 0600. Images and
    the like that wait are copied to a folder beside it, FILE.blobs: carry both.

    **Examples**

    ```sh
    zaplake collector export outbox.jsonl.gz
    zaplake collector export dead.jsonl --dead
    ```

    Parameters
    ----------
    file
        A new file; zipped when it ends in .gz.
    waiting
        Only what waits.
    dead
        Only dead letters.
    """
    settings = settle(common)
    wanted: dict[KeptState, bool] = {"waiting": waiting, "dead": dead}
    states = [state for state in STATES if wanted[state] or not any(wanted.values())]
    progress = Progress(TextColumn("{task.description}"), console=Console(stderr=True))
    task = progress.add_task("", total=None)

    def told(records: int) -> None:
        progress.update(task, description=counted(records, "record"))
        progress.start()

    with ended(progress):
        counts = converse(settings, lambda session: carry.export(session, file, states, told))
    print(f"{file}: {', '.join(f'{counts[state]} {state}' for state in states)}")
    return 0


def import_(file: Path, /, *, common: Common | None = None) -> int:
    """Bring in what `collector export` wrote, here or elsewhere; what is known is not doubled.

    Waiting records are shipped, dead letters stay dead letters (30 days from now). Files
    dead-YYYY-MM.jsonl of the outbox folder can be brought in too. Images are taken from FILE.blobs.

    **Examples**

    ```sh
    zaplake collector import outbox.jsonl.gz
    zaplake collector import outbox.jsonl.gz --data-dir /var/lib/zaplake
    ```

    Parameters
    ----------
    file
        The file; unzipped when it ends in .gz.
    """
    if not file.is_file():
        raise UsageTrouble(f"there is no file {file}", "name a file of `zaplake collector export`")
    settings = settle(common)
    with reading(file) as told:
        brought = converse(settings, lambda session: carry.bring(session, file, told), create=True)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(brought.counts.items())) or "nothing"
    print(f"{counted(brought.lines, 'line')}: {counts}")
    if brought.blobs_missing:
        print(
            f"{counted(brought.blobs_missing, 'file')} not in {carry.blobs_beside(file)}: events go without"
        )
    for number, reason in brought.bad:
        print(f"line {number} is no record: {reason}")
    if brought.bad_lines:
        print(
            f"→ {counted(brought.bad_lines, 'bad line')}; repair and import again: the others are not doubled"
        )
    return 1 if brought.bad_lines else 0
