"""``zaplake inbox``: how far the rules are, what failed, and doing it again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

import asyncpg
import msgspec
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from contracts.times import as_datetime
from ingest.inbox import operating
from ingest.inbox.operating import ConsumerStatus, Failure, UnknownConsumerError
from zaplake.cli.options import AsJson, Common, settle
from zaplake.database import lake_dsn
from zaplake.query import lake
from zaplake.rules import all_consumers
from zaplake.trouble import Trouble, UsageTrouble

T = TypeVar("T")
FAILURES_MAX: Final = 100
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode

app = App(name="inbox", help="Look after the rules: lag, failures, replay.")


@app.command
def status(*, as_json: AsJson = False, common: Common | None = None) -> int:
    """How far each consumer of the lake's log is, and what failed.

    Exit code 1 when one is paused or has dead events.

    **Examples**

    ```sh
    zaplake inbox status
    zaplake inbox status --json
    ```

    Parameters
    ----------
    as_json
        A JSON array, an object a consumer.
    """
    found = _ask(common, operating.statuses)
    if as_json:
        print(_encode(found).decode())
    else:
        _show_statuses(found)
    return 1 if any(one.paused_at or one.lag.dead for one in found) else 0


@app.command
def failures(
    *,
    consumer: str | None = None,
    limit: int = FAILURES_MAX,
    as_json: AsJson = False,
    common: Common | None = None,
) -> int:
    """Events that a rule failed on: tried again when due, or dead; the dead ones first.

    **Examples**

    ```sh
    zaplake inbox failures
    zaplake inbox failures --consumer rules --limit 1000 --json
    ```

    Parameters
    ----------
    consumer
        Only of this one.
    limit
        Most that are shown.
    as_json
        A JSON array, an object an event.
    """
    if limit < 1:
        raise UsageTrouble("--limit must be at least 1", "leave it out for the default")
    found = _ask(common, lambda connection: operating.failures(connection, consumer, limit))
    if as_json:
        print(_encode(found).decode())
    else:
        _show_failures(found)
    return 0


@app.command
def replay(
    consumer: str,
    /,
    *,
    dead: bool = False,
    event: Annotated[tuple[UUID, ...], Parameter(negative=())] = (),
    since: str | None = None,
    common: Common | None = None,
) -> int:
    """Do it again: dead events (--dead, --event), or everything from a moment on (--since).

    --since moves the consumer's cursors back: all effects of its rules happen again from there. Their tables
    keep what is latest, so that changes nothing in them; what leaves the house would leave it twice.

    **Examples**

    ```sh
    zaplake inbox replay rules --dead
    zaplake inbox replay rules --event 7b2d…
    zaplake inbox replay rules --since 2026-05-01T00:00:00Z
    ```

    Parameters
    ----------
    consumer
        Its name, as `zaplake inbox status` shows it.
    dead
        Every dead event of it.
    event
        This dead event (its event_id); may be given several times.
    since
        Everything received since this moment, with its zone.
    """
    if dead + bool(event) + (since is not None) != 1:
        raise UsageTrouble("say what to replay", "give one of --dead, --event ID, --since TIME")
    if since is None:
        count = _ask(common, lambda it: operating.revive(it, consumer, list(event) or None))
        if event and count < len(set(event)):
            raise Trouble(
                f"{count} of {len(set(event))} are dead and are tried again",
                "`zaplake inbox failures` shows which events are dead",
            )
        print(f"{count} dead events are tried again" if count else "nothing is dead")
        return 0
    moment = as_datetime(since)
    if moment is None:
        raise UsageTrouble(f"--since {since} is no moment", "write it with its zone: 2026-05-01T00:00:00Z")
    return _replay_since(common, consumer, moment)


def _replay_since(common: Common | None, consumer: str, moment: datetime) -> int:
    first = _ask(common, lambda connection: operating.replay(connection, consumer, moment))
    if first is None:
        print(f"nothing was received since {moment.isoformat()}: nothing to replay")
        return 1
    print(f"{consumer} reads again from seq {first} on")
    return 0


@app.command
def pause(consumer: str, /, *, reason: str = "by an operator", common: Common | None = None) -> int:
    """Stop a consumer in all processes; new events wait for it.

    **Examples**

    ```sh
    zaplake inbox pause rules --reason "while the table is repaired"
    ```

    Parameters
    ----------
    consumer
        Its name.
    reason
        What `status` and the alert say.
    """
    done = _ask(common, lambda connection: operating.pause(connection, consumer, reason))
    print(f"{consumer} is paused" if done else f"{consumer} was paused already")
    return 0


@app.command
def resume(consumer: str, /, *, park: bool = False, common: Common | None = None) -> int:
    """Let a paused consumer go on where it was.

    **Examples**

    ```sh
    zaplake inbox resume rules
    zaplake inbox resume rules --park
    ```

    Parameters
    ----------
    consumer
        Its name.
    park
        Do not pause again for what is in the lake now: set aside all of it that fails.
    """
    done = _ask(common, lambda connection: operating.resume(connection, consumer, is_parking=park))
    print(f"{consumer} goes on" if done else f"{consumer} was not paused")
    return 0


@app.command
def forget(consumer: str, /, *, common: Common | None = None) -> int:
    """Remove a consumer that a release no longer has, with its cursors and failures; pause it first.

    What its rules wrote stays. Run again under this name, it begins with the first event of the log.

    **Examples**

    ```sh
    zaplake inbox pause old_rules --reason "removed in this release"
    zaplake inbox forget old_rules
    ```

    Parameters
    ----------
    consumer
        Its name.
    """
    if consumer in {one.name for one in all_consumers()}:
        raise Trouble(
            f"{consumer} belongs to this release: forgotten, it would run on the whole log again",
            f"to stop it, zaplake inbox pause {consumer}; to run it again, zaplake inbox replay {consumer}",
        )
    if not _ask(common, lambda connection: operating.forget(connection, consumer)):
        raise Trouble(
            f"{consumer} is not paused, so it may be running",
            f"when nobody runs it any more: zaplake inbox pause {consumer}; then forget it",
        )
    print(f"{consumer} is forgotten; run again, it would begin with the first event of the log")
    return 0


def _ask(common: Common | None, question: Callable[[asyncpg.Connection[Any]], Awaitable[T]]) -> T:
    """The answer. Raises Trouble."""

    async def asked(dsn: str) -> T:
        try:
            async with lake(dsn) as connection:
                return await question(connection)
        except UnknownConsumerError as error:
            raise UsageTrouble("there is no such consumer", f"there are: {error}") from error

    with lake_dsn(settle(common)) as dsn:
        return asyncio.run(asked(dsn))


def _show_statuses(found: list[ConsumerStatus]) -> None:
    table = Table("consumer", "state", "unread", "oldest", "to try again", "dead")
    for one in found:
        lag = one.lag
        table.add_row(
            one.name,
            "runs" if one.paused_at is None else f"paused: {one.paused_reason}",
            f"{lag.unread:,}{' or more' if lag.is_more else ''}",
            f"{lag.oldest_s:,.0f} s",
            f"{lag.failed:,}",
            f"{lag.dead:,}",
        )
    Console().print(table if found else "no consumer is known: run zaplake work, or zaplake up")


def _show_failures(found: list[Failure]) -> None:
    table = Table("consumer", "event", "state", "attempts", "next", "error")
    for one in found:
        due = "" if one.due_at is None else f"{one.due_at:%Y-%m-%d %H:%M:%S}"
        table.add_row(one.consumer, str(one.event_id), one.state, str(one.attempts), due, one.last_error)
    Console().print(table if found else "nothing failed")
