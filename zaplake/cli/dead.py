"""``zaplake collector dead``: records that the backend refused for good, kept for 30 days."""

from __future__ import annotations

import json
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zaplake.cli.asking import ask
from zaplake.cli.options import Common, settle
from zaplake.settings import Settings
from zaplake.trouble import UsageTrouble

PAGE = 1_000
AsJson = Annotated[bool, Parameter(name="--json")]
app = App(name="dead", help="Records that the backend refused for good.")


@app.command(name="list")
def list_(*, limit: int = 100, as_json: AsJson = False, common: Common | None = None) -> int:
    """List dead letters, oldest first, without their bodies.

    **Examples**

    ```sh
    zaplake collector dead list
    zaplake collector dead list --json --limit 1000
    ```

    Parameters
    ----------
    limit
        Most letters that are shown.
    as_json
        A JSON array.
    """
    letters = _letters(settle(common), limit)
    if as_json:
        print(json.dumps(letters))
        return 0
    shown = Table()
    shown.add_column("id", no_wrap=True)  # `dead show` wants all of it
    for name in ("label", "died", "status", "reason", "bytes"):
        shown.add_column(name)
    for letter in letters:
        died = letter["died_at"][:19].replace("T", " ")
        fields = (
            letter["id"],
            letter["label"],
            died,
            letter["status"],
            letter["reason"],
            letter["body_bytes"],
        )
        shown.add_row(*(Text(str(field)) for field in fields))
    Console().print(shown)
    print(f"dead letters shown: {len(letters)}")
    return 0


@app.command
def show(event_id: str, /, *, common: Common | None = None) -> int:
    """Show one dead letter with its body, as JSON.

    **Examples**

    ```sh
    zaplake collector dead show 3f2b0c1e-0000-5000-8000-000000000000
    ```

    Parameters
    ----------
    event_id
        The id, as `dead list` shows it.
    """
    document, _alive = ask(settle(common), {"verb": "dead.show", "id": event_id})
    for letter in document["dead"]:
        print(json.dumps(letter, indent=2, ensure_ascii=False))
    return 0


@app.command
def requeue(
    *event_ids: str,
    everything: Annotated[bool, Parameter(name="--all")] = False,
    dry_run: bool = False,
    common: Common | None = None,
) -> int:
    """Send dead letters once more, after the reason was repaired.

    **Examples**

    ```sh
    zaplake collector dead requeue --all --dry-run
    zaplake collector dead requeue 3f2b0c1e-0000-5000-8000-000000000000
    ```

    Parameters
    ----------
    event_ids
        Ids, as `dead list` shows them.
    everything
        All dead letters.
    dry_run
        Only say which.
    """
    return _change(settle(common), "requeue", event_ids, everything=everything, dry_run=dry_run)


@app.command
def drop(
    *event_ids: str,
    everything: Annotated[bool, Parameter(name="--all")] = False,
    dry_run: bool = False,
    common: Common | None = None,
) -> int:
    """Throw dead letters away for good; `dead show ID > FILE` keeps one.

    **Examples**

    ```sh
    zaplake collector dead drop --all --dry-run
    zaplake collector dead drop 3f2b0c1e-0000-5000-8000-000000000000
    ```

    Parameters
    ----------
    event_ids
        Ids, as `dead list` shows them.
    everything
        All dead letters.
    dry_run
        Only say which.
    """
    return _change(settle(common), "drop", event_ids, everything=everything, dry_run=dry_run)


def _change(
    settings: Settings, verb: str, event_ids: tuple[str, ...], *, everything: bool, dry_run: bool
) -> int:
    if everything == bool(event_ids):
        raise UsageTrouble(
            f"dead {verb} needs ids or --all, and not both", "`zaplake collector dead list` shows the ids"
        )
    done = "requeued" if verb == "requeue" else "dropped"
    if dry_run:
        found = [letter["id"] for letter in _letters(settings, None)]
        chosen = found if everything else [event_id for event_id in event_ids if event_id in set(found)]
        for event_id in chosen:
            print(event_id)
        print(f"{len(chosen)} would be {done}; nothing was changed")
        return 0 if everything or len(chosen) == len(event_ids) else 1
    document, _alive = ask(settings, {"verb": f"dead.{verb}", "ids": None if everything else list(event_ids)})
    print(f"{document[done]} {done}")
    return 0 if everything or document[done] >= len(set(event_ids)) else 1


def _letters(settings: Settings, limit: int | None) -> list[dict[str, Any]]:
    """The oldest ``limit`` letters, or all of them, page by page."""
    letters: list[dict[str, Any]] = []
    while limit is None or len(letters) < limit:
        wanted = PAGE if limit is None else min(PAGE, limit - len(letters))
        after = letters[-1]["rowid"] if letters else 0
        document, _alive = ask(settings, {"verb": "dead.list", "limit": wanted, "after": after})
        letters += document["dead"]
        if len(document["dead"]) < wanted:
            break
    return letters
