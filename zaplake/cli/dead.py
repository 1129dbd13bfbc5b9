"""``zaplake collector dead``: records that the backend refused for good, kept for 30 days."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zaplake.cli.asking import ask
from zaplake.cli.options import AsJson, Common, settle
from zaplake.cli.showing import counting, second
from zaplake.pace import Wanted, records_per_s, steps
from zaplake.settings import Settings
from zaplake.trouble import Trouble, UsageTrouble

PAGE: Final = 1_000
COLUMNS: Final = ("label", "died", "status", "reason", "bytes")
EventId: TypeAlias = Annotated[str, Parameter(help="Ids, as `dead list` shows them.")]
Everything: TypeAlias = Annotated[bool, Parameter(name="--all", help="All dead letters.")]
DryRun: TypeAlias = Annotated[bool, Parameter(help="Only say which.")]
app = App(name="dead", help="Records that the backend refused for good.")


@app.command(name="list")
def list_(
    *,
    limit: int = 100,
    reason: str = "",
    label: str = "",
    as_json: AsJson = False,
    common: Common | None = None,
) -> int:
    """List dead letters, oldest first, without their bodies.

    **Examples**

    ```sh
    zaplake collector dead list
    zaplake collector dead list --reason 422 --label evolution/loja-sp
    zaplake collector dead list --json --limit 1000
    ```

    Parameters
    ----------
    limit
        Most letters that are shown.
    reason
        Only those whose status or reason holds this text.
    label
        Only those whose label (gateway/instance kind) holds this text.
    as_json
        A JSON array.
    """
    letters = _letters(settle(common), limit, Wanted(reason=reason, label=label))
    if as_json:
        print(json.dumps(letters))
        return 0
    shown = Table()
    shown.add_column("id", no_wrap=True)  # `dead show` wants all of it
    for name in COLUMNS:
        shown.add_column(name)
    for letter in letters:
        letter = {**letter, "died": second(letter["died_at"]), "bytes": letter["body_bytes"]}
        shown.add_row(*(Text(str(letter[name])) for name in ("id", *COLUMNS)))
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
    *event_ids: EventId,
    everything: Everything = False,
    reason: str = "",
    label: str = "",
    pace: str | None = None,
    dry_run: DryRun = False,
    common: Common | None = None,
) -> int:
    """Send dead letters once more, after the reason was repaired.

    At a pace it stops when shipping is halted; what was not sent stays dead, and the same command goes on.

    **Examples**

    ```sh
    zaplake collector dead requeue --all --dry-run
    zaplake collector dead requeue --reason 422 --pace 20/s
    zaplake collector dead requeue 3f2b0c1e-0000-5000-8000-000000000000
    ```

    Parameters
    ----------
    reason
        All whose status or reason holds this text.
    label
        All whose label (gateway/instance kind) holds this text.
    pace
        At most so many a second or minute, as 20/s or 30/m; beside a running collector.
    """
    settings = settle(common)
    wanted = Wanted(reason=reason, label=label)
    per_s = None if pace is None else records_per_s(pace)
    if not dry_run and per_s is None and wanted.is_everything:
        return _change(settings, "requeue", event_ids, everything=everything, dry_run=False)
    _refuse_vague("requeue", event_ids, everything=everything, wanted=wanted)
    named, found = frozenset(event_ids), _letters(settings, None, wanted)
    chosen = list(dict.fromkeys(letter["id"] for letter in found if not event_ids or letter["id"] in named))
    missing = bool(event_ids) and len(chosen) < len(named)
    if dry_run:
        _say_which(chosen, "requeued")
    else:
        _requeue(settings, chosen, per_s)
    if missing:
        raise _unknown(len(named) - len(chosen))
    return 0


@app.command
def drop(
    *event_ids: EventId,
    everything: Everything = False,
    dry_run: DryRun = False,
    common: Common | None = None,
) -> int:
    """Throw dead letters away for good; `dead show ID > FILE` keeps one.

    **Examples**

    ```sh
    zaplake collector dead drop --all --dry-run
    zaplake collector dead drop 3f2b0c1e-0000-5000-8000-000000000000
    ```
    """
    return _change(settle(common), "drop", event_ids, everything=everything, dry_run=dry_run)


def _change(
    settings: Settings, verb: str, event_ids: tuple[str, ...], *, everything: bool, dry_run: bool
) -> int:
    _refuse_vague(verb, event_ids, everything=everything, wanted=Wanted())
    done = "requeued" if verb == "requeue" else "dropped"
    if dry_run:
        found = [letter["id"] for letter in _letters(settings, None, Wanted())]
        known = frozenset(found)
        chosen = found if everything else [event_id for event_id in event_ids if event_id in known]
        _say_which(chosen, done)
        count = len(set(chosen))
    else:
        count = _do(settings, verb, None if everything else event_ids)
        print(f"{count} {done}")
    if not everything and count < len(set(event_ids)):
        raise _unknown(len(set(event_ids)) - count)
    return 0


def _do(settings: Settings, verb: str, event_ids: Sequence[str] | None) -> int:
    ids = None if event_ids is None else list(event_ids)
    document, _alive = ask(settings, {"verb": f"dead.{verb}", "ids": ids})
    return int(document["requeued" if verb == "requeue" else "dropped"])


def _unknown(count: int) -> Trouble:
    return Trouble(
        f"no dead letter has {'that id' if count == 1 else f'{count} of these ids'}",
        "`zaplake collector dead list` shows the ids",
    )


def _refuse_vague(verb: str, event_ids: Sequence[str], *, everything: bool, wanted: Wanted) -> None:
    """A slip of the finger must not move or drop them all."""
    if [everything, bool(event_ids), not wanted.is_everything].count(True) != 1:
        ways = "ids or --all (or --reason, --label)" if verb == "requeue" else "ids or --all"
        raise UsageTrouble(
            f"dead {verb} needs {ways}, and only one of them", "`zaplake collector dead list` shows the ids"
        )


def _say_which(event_ids: Sequence[str], done: str) -> None:
    for event_id in event_ids:
        print(event_id)
    print(f"{len(event_ids)} would be {done}; nothing was changed")


def _requeue(settings: Settings, event_ids: Sequence[str], per_s: float | None) -> None:
    """All of them, at the pace; looks before each step whether shipping goes on."""
    requeued = sent = 0
    with counting("requeued", len(event_ids)) as told:
        for step in steps(event_ids, per_s or len(event_ids) or 1):
            if per_s is not None:
                _refuse_halted(settings, requeued, len(event_ids))
            document, _alive = ask(settings, {"verb": "dead.requeue", "ids": list(step.ids)})
            requeued += document["requeued"]
            sent += len(step.ids)
            told(sent)
            if per_s is not None and sent < len(event_ids):
                time.sleep(step.wait_s)
    print(f"{requeued} requeued")


def _refuse_halted(settings: Settings, requeued: int, wanted: int) -> None:
    document, alive = ask(settings, {"verb": "status"})
    if not alive:
        raise Trouble(
            "no collector runs, so nothing is shipped and there is no pace to keep",
            "start it, or leave --pace out",
        )
    if document["shipper"]["halted"]:
        why = document["shipper"]["halt_reason"]
        raise Trouble(
            f"{requeued} of {wanted} requeued, then shipping was halted: {why}",
            "repair that (`zaplake doctor`), then run this again: it goes on with the rest",
        )


def _letters(settings: Settings, limit: int | None, wanted: Wanted) -> list[dict[str, Any]]:
    """The oldest ``limit`` letters that are wanted, or all of them, page by page."""
    letters: list[dict[str, Any]] = []
    after = {"after": 0, "blobs_after": 0}
    while limit is None or len(letters) < limit:
        document, _alive = ask(settings, {"verb": "dead.list", "limit": PAGE, **after})
        for name, found in (("after", document["dead"]), ("blobs_after", document["blobs"])):
            letters += [letter for letter in found if wanted.takes(letter)]
            after[name] = found[-1]["rowid"] if found else after[name]
        if PAGE not in (len(document["dead"]), len(document["blobs"])):
            break
    return letters if limit is None else letters[:limit]
